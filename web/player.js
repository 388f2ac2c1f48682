// The page's loudspeaker: one AudioContext, one worklet, many utterances, each by a name of the caller's.
// Knows no socket. Times are seconds on performance.now(), at the ear; samples are the utterance's own.

import { BUCKETS, FIELDS, HEADER } from './report.js';
import { FINISHED, PLAYING, STARVED } from './voice.js';

const UNLOCK_MS = 4000;
const MODULE = new URL('./worklet.js', import.meta.url);

export class NoSound extends Error {}

export class Player {
  // onreport(report): what the audio thread played, 25 times a second of sounding clock.
  // onstate(state): 'running', 'suspended' or, on iOS, 'interrupted': the browser has paused the sound.
  constructor({ onreport = () => {}, onstate = () => {} } = {}) {
    this.onreport = onreport;
    this.onstate = onstate;
    this.context = null;
    this.node = null;
    this.loading = null;
    this.waiting = []; // messages for a worklet that is still loading
    this.tracks = new Map(); // caller's name -> { id on the audio thread, rate }
    this.next = 0;
    this.last = null; // the latest report
  }

  // Call inside a click or key handler: browsers start sound only there. Resolves once sound can run.
  // Throws NoSound in plain words.
  async unlock() {
    if (typeof AudioWorkletNode === 'undefined') {
      throw new NoSound('This browser allows live sound only over https or on localhost.');
    }
    if (this.context === null || this.context.state === 'closed') this.build();
    const { context } = this;
    const running = context.resume(); // before the first await: still inside the gesture
    try {
      await this.loading;
    } catch {
      context.close();
      this.context = null;
      throw new NoSound('No server answers. This page keeps trying.');
    }
    await Promise.race([running, refusal(context)]);
  }

  // Goes on after the browser has paused the sound; what was not played yet is still there.
  resume() {
    if (this.context?.state !== 'closed') this.context?.resume().catch(() => {});
  }

  build() {
    this.context = new AudioContext({ latencyHint: 'interactive' });
    this.node = null;
    this.waiting = [];
    this.context.onstatechange = () => this.onstate(this.state);
    this.tracks.clear();
    const { context } = this;
    this.loading = context.audioWorklet.addModule(MODULE).then(() => {
      this.node = new AudioWorkletNode(context, 'speaker', {
        numberOfInputs: 0,
        outputChannelCount: [1],
      });
      this.node.port.onmessage = ({ data }) => this.receive(data);
      this.node.connect(context.destination);
      for (const [message, transfer] of this.waiting.splice(0)) {
        this.node.port.postMessage(message, transfer);
      }
    });
  }

  get state() {
    return this.context === null ? 'locked' : this.context.state;
  }

  open(name, rate) {
    const id = this.next++;
    this.tracks.set(name, { id, rate, firstSound: null });
    this.post({ type: 'open', id, rate });
  }

  // pcm: Uint8Array of little-endian 16-bit samples. The bytes are copied, then moved to the audio thread.
  push(name, pcm) {
    const bytes = pcm.slice().buffer;
    this.tell(name, { type: 'pcm', pcm: bytes }, [bytes]);
  }

  end(name) {
    this.tell(name, { type: 'end' });
  }

  // Silence now, with a fade of a few milliseconds.
  close(name) {
    this.tell(name, { type: 'close' });
    this.tracks.delete(name);
  }

  // A name that is over, or went with a context that broke, is passed by.
  tell(name, message, transfer = []) {
    const track = this.tracks.get(name);
    if (track !== undefined) this.post({ ...message, id: track.id }, transfer);
  }

  // Samples of that utterance that have reached the ear, as near as the browser lets us know.
  heard(name) {
    const { last } = this;
    if (last === null || last.name !== name) return 0;
    const most = last.played + (last.playing ? last.buffered : 0);
    const samples = last.played + (this.earClock() - last.clock) * last.rate;
    return Math.round(Math.min(most, Math.max(0, samples)));
  }

  // The audio clock of what the device plays just now: behind currentTime by the output's latency.
  // A context that has only just started gives time stamps that run ahead: the later estimate counts.
  earClock() {
    const { context } = this;
    const rendered = context.currentTime - (context.outputLatency || context.baseLatency || 0);
    const { contextTime, performanceTime } = context.getOutputTimestamp?.() ?? {};
    if (!(performanceTime > 0)) return rendered;
    return Math.min(rendered, contextTime + (performance.now() - performanceTime) / 1000);
  }

  post(message, transfer = []) {
    if (this.node === null) this.waiting.push([message, transfer]);
    else this.node.port.postMessage(message, transfer);
  }

  receive(data) {
    if (typeof data === 'number') this.sounds(data);
    else this.read(data);
  }

  // A voice's first audible sample is made just now. Not by the audio clock: while a context starts up,
  // that runs ahead of what is heard.
  sounds(id) {
    const latency = this.context.outputLatency || this.context.baseLatency || 0;
    this.track(id)[1].firstSound = performance.now() / 1000 + latency;
  }

  read(numbers) {
    const { context } = this;
    const now = performance.now() / 1000;
    const ear = this.earClock();
    const [name, track] = this.track(numbers[FIELDS.id]);
    this.last = {
      name,
      rate: track.rate,
      firstSound: track.firstSound,
      at: now - (ear - numbers[FIELDS.frame] / context.sampleRate),
      playing: numbers[FIELDS.state] === PLAYING,
      starved: numbers[FIELDS.state] === STARVED,
      finished: numbers[FIELDS.state] === FINISHED,
      played: numbers[FIELDS.played],
      buffered: numbers[FIELDS.buffered],
      underruns: numbers[FIELDS.underruns],
      threshold: numbers[FIELDS.threshold],
      clock: numbers[FIELDS.frame] / context.sampleRate, // of the AudioContext, as below
      lastSoundClock: numbers[FIELDS.lastSound] / context.sampleRate,
      peaks: numbers.subarray(HEADER, HEADER + 2 * BUCKETS),
    };
    if (this.last.finished) this.tracks.delete(name);
    this.onreport(this.last);
  }

  track(id) {
    for (const entry of this.tracks) if (entry[1].id === id) return entry;
    return [null, { rate: 24000, firstSound: null }];
  }
}

// Rejects where the browser neither starts the sound nor says why.
function refusal(context) {
  return new Promise((_, reject) => {
    setTimeout(() => {
      if (context.state === 'running') return;
      reject(new NoSound('The browser does not let sound start. Allow it for this page, then speak again.'));
    }, UNLOCK_MS);
  });
}
