// The page: wires the sentence, the buttons and the score to takes. The only file that knows the DOM's ids.

import { Client } from './client.js';
import { shade, unshade } from './highlight.js';
import * as link from './link.js';
import { Player } from './player.js';
import { Scope } from './scope.js';
import { Sentence } from './sentence.js';
import { Take } from './take.js';
import { colourOf, offerTheme } from './theme.js';
import { AT_ONCE } from './typist.js';
import { wav } from './wav.js';
import { ending, trouble } from './words.js';

const PATIENCE = 0.7; // seconds without `started` before the page says that there is a queue
const COMFORT = 1.2; // seconds in store from which every frame is drawn
const SELDOM_MS = 120;

const page = Object.fromEntries([...document.querySelectorAll('[id]')].map((node) => [node.id, node]));
const sentence = new Sentence(page);
const scope = new Scope(page.scope);
const player = new Player({
  onreport: (report) => take?.report(report),
  onstate: () => take && show(take),
});
const client = new Client(new URL('v1/speech', document.baseURI).href.replace(/^http/, 'ws'), {
  token: sessionStorage.getItem('key') ?? '',
  onlost: showLost,
});
let take = null;
let kept = false; // the seed
let reaching = false;
let drawing = false;
let drawUntil = 0; // on performance.now(), as the next
let drawn = 0;

// --- speaking

function speak() {
  take?.stop();
  const { text, voice } = sentence;
  if (!text.trim()) return say('Write something for the voice to say.', 'trouble');
  if (!kept) newSeed();
  const seed = page.seed.value;
  if (!/^\d+$/.test(seed)) return say('A voice number is digits only.', 'trouble');
  page.save.hidden = true;
  history.replaceState(null, '', link.write({ voice, text, seed }));
  take = new Take({
    client,
    player,
    text,
    rate: page.rate.value === 'once' ? AT_ONCE : Number(page.rate.value),
    request: {
      voice: { design: voice },
      language: page.language.value,
      seed: Number(seed),
      progress: true,
    },
    onchange: show,
  });
  take.start();
}

function stop() {
  take?.stop();
}

// --- showing

function show(current) {
  if (current !== take) return;
  const sounded = take.firstSound !== null;
  document.body.dataset.phase = take.phase;
  page.stop.disabled = !take.sounding;
  write(page.ttfa, sounded ? milliseconds(take.firstSound) : '–');
  write(page.early, sounded ? early() : '–');
  write(page.lead, take.live ? `${take.lead.toFixed(1)} s` : '–');
  write(page.gaps, sounded ? `${take.gaps}` : '–');
  say(...state());
  if (client.ready) showServer(client.ready);
  if (take.error?.code === 'unauthorized') askForKey();
  if (!take.live && take.samples > 0 && page.save.hidden) offerRecording();
  if (!take.live && sounded) page.scope.ariaLabel = summary();
  draw();
}

function state() {
  switch (take.phase) {
    case 'opening':
      return [take.waking ? 'Waiting for the voice to wake up.' : 'Opening the voice.'];
    case 'speaking':
      if (take.firstSound === null) {
        const queued = take.started === null && take.now > PATIENCE;
        return [queued ? 'Waiting for a free voice.' : 'Drawing breath.'];
      }
      if (player.state !== 'running') return ['The browser has paused the sound.', 'trouble'];
      if (take.starved) return [take.textShort ? 'Waiting for words.' : 'Waiting for more.'];
      return ['Speaking.'];
    case 'stopped':
      return ['Stopped.'];
    case 'failed':
      return [trouble(take.error), 'trouble'];
    default:
      return ending(take.done) ? [ending(take.done), 'trouble'] : ['Said.'];
  }
}

// By how much sound came before the text was complete.
function early() {
  const seconds = (take.textEnded ?? take.now) - take.firstSound;
  return `${Math.max(0, seconds).toFixed(1)} s`;
}

// The score for those who do not see it.
function summary() {
  const seconds = (take.played / take.rate).toFixed(1);
  const first = `First sound after ${milliseconds(take.firstSound)}`;
  return `${first}, ${early()} before the text was complete; ${seconds} s heard, gaps: ${take.gaps}.`;
}

function say(words, tone = '') {
  write(page.state, words);
  if (page.state.dataset.tone !== tone) page.state.dataset.tone = tone;
}

// Once per change: the browser lays out anew, and a screen reader speaks, whatever is written.
function write(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function showServer(ready) {
  write(page.server, `${ready.model}, ready`);
  const known = [...page.language.options].map((option) => option.value);
  for (const language of ready.languages) {
    if (!known.includes(language)) page.language.add(new Option(capital(language), language));
  }
}

function showLost(lost) {
  if (lost.code === 1000) return write(page.server, 'asleep until you speak');
  showAway(lost);
  stayConnected();
}

function showAway(error) {
  write(page.server, trouble(error));
  return true;
}

async function stayConnected() {
  if (reaching) return;
  reaching = true;
  await client.reach(showAway).then(showServer, showAway);
  reaching = false;
}

function askForKey() {
  page.key.hidden = false;
  page.token.focus();
}

function offerRecording() {
  URL.revokeObjectURL(page.save.href);
  page.save.href = URL.createObjectURL(wav(take.pcm, take.rate));
  page.save.hidden = false;
}

function milliseconds(seconds) {
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(2)} s`;
}

function capital(word) {
  return word[0].toUpperCase() + word.slice(1);
}

// --- drawing

// Goes on while something moves: a live take, and a little longer for colours and the line's last stretch.
function draw() {
  drawUntil = performance.now() + 1500;
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(frame);
}

// The ear before the eye: while little is in store, a machine without a graphics card draws seldom.
function frame(now) {
  if (!take?.live || take.lead > COMFORT || now - drawn > SELDOM_MS) {
    drawn = now;
    scope.draw(take, take === null ? 0 : take.end ?? take.now);
    shadeText();
  }
  drawing = take?.live || performance.now() < drawUntil;
  if (drawing) requestAnimationFrame(frame);
}

function shadeText() {
  if (!take?.live || sentence.text !== take.text) return unshade();
  const heard = take.utterance ? take.heardCharacters(player.heard(take.utterance.name)) : 0;
  shade(page.text, heard, take.written);
}

// --- the voice's number and colour

function newSeed() {
  page.seed.value = crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
  colour();
}

function colour() {
  colourOf(page.seed.value);
  draw();
}

function keep(on) {
  kept = on;
  page.keep.setAttribute('aria-pressed', String(on));
  page.keep.textContent = on ? 'kept' : 'new each time';
  page.keep.title = on ? 'Take a new voice number each time' : 'Keep this voice number';
}

// --- wiring

page.speak.addEventListener('click', speak);
page.stop.addEventListener('click', stop);
page.controls.addEventListener('submit', (event) => event.preventDefault());
page.keep.addEventListener('click', () => keep(!kept));
page.language.addEventListener('change', () => sentence.speakIn(page.language.value));
page.seed.addEventListener('input', () => {
  keep(true);
  colour();
});
page.key.addEventListener('submit', (event) => {
  event.preventDefault();
  client.token = page.token.value;
  sessionStorage.setItem('key', client.token);
  page.key.hidden = true;
  speak();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') return stop();
  const plain = sentence.holds(event.target) && !event.shiftKey && !event.altKey && !event.isComposing;
  if (event.key !== 'Enter' || !(plain || event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  speak();
});
addEventListener('resize', draw);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && take?.live) player.resume();
});

const linked = link.read(location.hash);
sentence.write(linked);
sentence.offerExamples(page.examples, speak);
offerTheme(page.theme, draw);
newSeed();
if (linked.seed) {
  page.seed.value = linked.seed;
  keep(true);
  colour();
}
stayConnected();

globalThis.vivavoce = { client, player, get take() { return take; } }; // for the console and the tests
