// The page: wires the sentence, the buttons and the score to takes. The only file that knows the DOM's ids.

import { Client } from './client.js';
import { EXAMPLES, anyone } from './examples.js';
import { shade, unshade } from './highlight.js';
import * as link from './link.js';
import { Player } from './player.js';
import { Scope } from './scope.js';
import { Take } from './take.js';
import { AT_ONCE } from './typist.js';
import { wav } from './wav.js';
import { ending, trouble } from './words.js';

const page = Object.fromEntries([...document.querySelectorAll('[id]')].map((node) => [node.id, node]));
const player = new Player({
  onreport: (report) => take?.report(report),
  onstate: () => take && show(take),
});
const client = new Client(new URL('v1/speech', document.baseURI).href.replace(/^http/, 'ws'), {
  token: sessionStorage.getItem('key') ?? '',
  onlost: showLost,
});
const scope = new Scope(page.scope);
let take = null;
let drawing = false;
let drawUntil = 0; // on performance.now()
let kept = false;
let ownText = false; // the visitor has written the text: examples change the voice only

// --- speaking

function speak() {
  take?.stop();
  const text = page.text.textContent;
  if (!text.trim()) return say('Write something for the voice to say.', 'trouble');
  if (!kept) newSeed();
  if (!page.seed.checkValidity() || page.seed.value === '') return say('A voice number is digits only.', 'trouble');
  const rate = page.rate.value === 'once' ? AT_ONCE : Number(page.rate.value);
  take = new Take({ client, player, request: request(), text, rate, onchange: show });
  take.start();
  page.save.hidden = true;
  history.replaceState(null, '', link.write({ voice: page.voice.textContent, text, seed: page.seed.value }));
  showServer(client.ready);
  draw();
}

function request() {
  return {
    voice: { design: page.voice.textContent.trim() || page.voice.dataset.placeholder },
    language: page.language.value,
    seed: Number(page.seed.value),
    progress: true,
  };
}

function stop() {
  take?.stop();
}

// --- showing

function show(current) {
  if (current !== take) return;
  document.body.dataset.phase = take.phase;
  page.stop.disabled = !take.live;
  page.ttfa.textContent = take.firstSound === null ? '–' : milliseconds(take.firstSound);
  page.early.textContent = early();
  page.lead.textContent = take.live ? `${take.lead.toFixed(1)} s` : '–';
  page.gaps.textContent = take.firstSound === null ? '–' : String(take.gaps);
  say(...sentence());
  draw();
  if (client.ready) showServer(client.ready);
  if (take.error?.code === 'unauthorized') askForKey();
  if (!take.live && take.samples > 0 && page.save.hidden) offerRecording();
}

function offerRecording() {
  URL.revokeObjectURL(page.save.href);
  page.save.href = URL.createObjectURL(wav(take.pcm, take.rate));
  page.save.hidden = false;
}

function sentence() {
  switch (take.phase) {
    case 'opening':
      return ['Opening the voice.'];
    case 'speaking':
      if (take.firstSound === null) return ['Drawing breath.'];
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

function early() {
  if (take.firstSound === null) return '–';
  if (take.textEnded === null) return `${(take.now - take.firstSound).toFixed(1)} s`;
  const seconds = take.textEnded - take.firstSound;
  return seconds > 0 ? `${seconds.toFixed(1)} s` : '0 s';
}

// Said once per change, so that a screen reader is not flooded.
function say(words, tone = '') {
  if (page.state.textContent !== words) page.state.textContent = words;
  page.state.dataset.tone = tone;
}

function showServer(ready) {
  if (!ready) return;
  page.server.textContent = `${ready.model}, ready`;
  const known = [...page.language.options].map((option) => option.value);
  for (const language of ready.languages) {
    if (!known.includes(language)) page.language.add(new Option(capital(language), language));
  }
}

function showLost(lost) {
  page.server.textContent = lost.code === 1000 ? 'asleep until you speak' : trouble(lost);
}

function askForKey() {
  page.key.hidden = false;
  page.token.focus();
}

function milliseconds(seconds) {
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(2)} s`;
}

function capital(word) {
  return word[0].toUpperCase() + word.slice(1);
}

// Runs while something moves: a live take, and a little longer for colours and the line's last stretch.
function draw() {
  drawUntil = performance.now() + 1500;
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(frame);
}

function frame() {
  scope.draw(take, take === null ? 0 : take.end ?? take.now);
  shadeText();
  drawing = take?.live || performance.now() < drawUntil;
  if (drawing) requestAnimationFrame(frame);
}

function shadeText() {
  if (take === null || page.text.textContent !== take.text || !take.live) return unshade();
  const heard = take.utterance ? take.heardCharacters(player.heard(take.utterance.name)) : 0;
  shade(page.text, heard, take.written);
}

// --- the voice's number and colour

function newSeed() {
  page.seed.value = crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
  colour();
}

// Neighbouring seeds get far-apart hues (the golden angle).
function colour() {
  const hue = (Number(page.seed.value) * 137.508) % 360;
  document.documentElement.style.setProperty('--hue', Number.isFinite(hue) ? hue.toFixed(1) : 75);
  draw();
}

function keep(on) {
  kept = on;
  page.keep.setAttribute('aria-pressed', String(on));
  page.keep.textContent = on ? 'kept' : 'new each time';
  page.keep.title = on ? 'Take a new voice number each time' : 'Keep this voice number';
}

// --- the sentence

function fit() {
  const length = page.voice.textContent.length + page.text.textContent.length;
  page.text.closest('.sentence').dataset.length = length > 700 ? 'page' : length > 260 ? 'long' : '';
  page.says.textContent = page.voice.textContent.includes(',') ? ', says:' : ' says:';
}

// Browsers without plaintext-only: paste without the markup.
function editPlainly(slot) {
  slot.contentEditable = 'true';
  slot.addEventListener('paste', (event) => {
    event.preventDefault();
    document.execCommand('insertText', false, event.clipboardData.getData('text/plain'));
  });
}

function write({ voice, text }) {
  page.voice.textContent = voice;
  if (text && !ownText) page.text.textContent = text;
  fit();
  speak();
}

function listExamples() {
  const choices = EXAMPLES.map(({ name, ...example }) => [name, () => write(example)]);
  choices.push(['anyone', () => write({ voice: anyone(Math.random) })]);
  choices.forEach(([name, choose], i) => {
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: name });
    button.setAttribute('aria-label', `Speak as ${name}`);
    button.addEventListener('click', choose);
    const before = i === 0 ? '' : i === choices.length - 1 ? ', or ' : ', ';
    page.examples.append(before, button);
  });
  page.examples.append('.');
}

// --- light and dark

function theme(dark) {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  page.theme.textContent = dark ? 'light' : 'dark';
  page.theme.setAttribute('aria-label', `${page.theme.textContent} colours`);
  draw();
}

// --- wiring

page.speak.addEventListener('click', speak);
page.stop.addEventListener('click', stop);
page.controls.addEventListener('submit', (event) => event.preventDefault());
page.keep.addEventListener('click', () => keep(!kept));
page.seed.addEventListener('input', () => {
  keep(true);
  colour();
});
page.key.addEventListener('submit', (event) => {
  event.preventDefault();
  client.token = page.token.value;
  sessionStorage.setItem('key', client.token);
  client.close();
  page.key.hidden = true;
  speak();
});
page.text.addEventListener('input', () => (ownText = page.text.textContent.trim() !== ''));
for (const slot of [page.voice, page.text]) {
  if (slot.contentEditable !== 'plaintext-only') editPlainly(slot);
  slot.addEventListener('input', () => {
    if (!slot.textContent.trim()) slot.replaceChildren();
    fit();
  });
}
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') return stop();
  const writing = event.target === page.text || event.target === page.voice;
  const plain = writing && !event.shiftKey && !event.altKey && !event.isComposing;
  if (event.key !== 'Enter' || !(plain || event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  speak();
});

const darkness = matchMedia('(prefers-color-scheme: dark)');
darkness.addEventListener('change', () => localStorage.getItem('theme') ?? theme(darkness.matches));
page.theme.addEventListener('click', () => {
  const dark = document.documentElement.dataset.theme !== 'dark';
  localStorage.setItem('theme', dark ? 'dark' : 'light');
  theme(dark);
});
addEventListener('resize', draw);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden && take?.live) player.resume();
});

const linked = link.read(location.hash);
if (linked.voice) page.voice.textContent = linked.voice;
if (linked.text) page.text.textContent = linked.text;
listExamples();
newSeed();
if (linked.seed) {
  page.seed.value = linked.seed;
  keep(true);
  colour();
}
fit();
theme(localStorage.getItem('theme') === 'dark' || (!localStorage.getItem('theme') && darkness.matches));
client.connect().then(showServer, () => {});

globalThis.vivavoce = { client, player, get take() { return take; } }; // for the console and the tests
