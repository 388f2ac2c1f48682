// The audio thread's end of the player: mixes the voices it is sent and reports what it played.
// process() makes no object; the report is one array, which the browser copies 25 times a second.
// Reports come from the frame count, so they go on in a hidden tab, and stop when the context is suspended.

import { FINISHED, StartThreshold, Voice } from './voice.js';
import { BUCKETS, FIELDS, HEADER } from './report.js';

const AUDIBLE = 0.003; // about -50 dBFS
const BUCKET_SECONDS = 0.01;

class Speaker extends AudioWorkletProcessor {
  constructor() {
    super();
    this.voices = [];
    this.threshold = new StartThreshold();
    this.report = new Float64Array(HEADER + 2 * BUCKETS);
    this.bucketFrames = Math.round(BUCKET_SECONDS * sampleRate);
    this.inBucket = 0;
    this.bucket = 0;
    this.low = 0;
    this.high = 0;
    this.silent = true; // the newest voice has not been heard yet
    this.lastSound = -1; // frame of the last sample that was not zero
    this.port.onmessage = ({ data }) => this.receive(data);
  }

  receive({ type, id, rate, pcm }) {
    if (type === 'open') {
      this.voices.push(new Voice(id, rate, sampleRate, this.threshold));
      this.silent = true;
      return;
    }
    for (const voice of this.voices) {
      if (voice.id !== id) continue;
      if (type === 'pcm') voice.push(new Int16Array(pcm));
      else if (type === 'end') voice.end();
      else if (type === 'close') voice.close();
    }
  }

  process(_, outputs) {
    const out = outputs[0][0];
    const count = out.length;
    for (let v = 0; v < this.voices.length; v++) this.voices[v].render(out, count);
    if (this.voices.length > 0) this.threshold.played(count / sampleRate);
    for (let i = 0; i < count; i++) this.measure(out[i], currentFrame + i);
    return true;
  }

  measure(value, frame) {
    if (value !== 0) this.lastSound = frame;
    if (this.silent && (value > AUDIBLE || value < -AUDIBLE)) this.sound();
    if (value < this.low) this.low = value;
    if (value > this.high) this.high = value;
    if (++this.inBucket < this.bucketFrames) return;
    this.report[HEADER + 2 * this.bucket] = this.low;
    this.report[HEADER + 2 * this.bucket + 1] = this.high;
    this.inBucket = 0;
    this.low = 0;
    this.high = 0;
    if (++this.bucket < BUCKETS) return;
    this.bucket = 0;
    this.send(frame + 1);
  }

  sound() {
    const { voices } = this;
    const voice = voices[voices.length - 1];
    if (voice.played === 0) return; // it is the one before that is still fading
    this.silent = false;
    this.port.postMessage(voice.id);
  }

  send(frame) {
    const { report, voices } = this;
    report[FIELDS.frame] = frame;
    report[FIELDS.lastSound] = this.lastSound;
    report[FIELDS.threshold] = this.threshold.seconds;
    const voice = voices.length > 0 ? voices[voices.length - 1] : null;
    report[FIELDS.id] = voice === null ? -1 : voice.id;
    report[FIELDS.state] = voice === null ? FINISHED : voice.state;
    report[FIELDS.played] = voice === null ? 0 : voice.played;
    report[FIELDS.buffered] = voice === null ? 0 : voice.buffered;
    report[FIELDS.underruns] = voice === null ? 0 : voice.underruns;
    this.port.postMessage(report);
    let kept = 0;
    for (let v = 0; v < voices.length; v++) {
      if (voices[v].state !== FINISHED) voices[kept++] = voices[v];
    }
    voices.length = kept;
  }
}

registerProcessor('speaker', Speaker);
