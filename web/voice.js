// One utterance on the audio thread: waiting -> playing <-> starved -> finished; close() from anywhere.
// render() allocates nothing. Positions are samples of the utterance; frames are the device's.

import { Resampler } from './resampler.js';
import { Ring } from './ring.js';

export const WAITING = 0;
export const PLAYING = 1;
export const STARVED = 2;
export const CLOSING = 3;
export const FINISHED = 4;

const FADE_SECONDS = 0.006; // at a gap and at a stop: too short to hear as a fade, long enough not to click
const RING_SECONDS = 4;

const HEDGE_SECONDS = 1.2; // in store where audio comes as fast as it plays; the faster it comes, the less
const BURST_SECONDS = 0.02; // what comes together was held up together, and tells nothing of the pace

// How much audio must be there before sound starts. Doubles after an underrun, eases back in calm.
export class StartThreshold {
  constructor(seconds = 0.2, most = 1.0, calm = 20) {
    this.least = seconds;
    this.most = most;
    this.calm = calm;
    this.seconds = seconds;
    this.quiet = 0; // seconds played since the last underrun
  }

  // `pace`: seconds of audio that came a second until now.
  needed(pace) {
    return Math.min(this.most, Math.max(this.seconds, HEDGE_SECONDS / pace));
  }

  underrun() {
    this.seconds = Math.min(this.most, this.seconds * 2);
    this.quiet = 0;
  }

  played(seconds) {
    this.quiet += seconds;
    if (this.quiet < this.calm) return;
    this.quiet = 0;
    this.seconds = Math.max(this.least, this.seconds * 0.7);
  }
}

export class Voice {
  constructor(id, rate, deviceRate, threshold) {
    this.id = id;
    this.rate = rate;
    this.deviceRate = deviceRate;
    this.threshold = threshold;
    this.ring = new Ring(rate * RING_SECONDS);
    this.resampler = new Resampler(rate, deviceRate);
    this.fade = Math.ceil(FADE_SECONDS * deviceRate); // frames
    this.state = WAITING;
    this.ended = false;
    this.total = 0; // samples received
    this.first = 0; // of them in the first burst
    this.waited = 0; // frames since then, until sound starts
    this.underruns = 0;
    this.gain = 1;
    this.slope = 0; // of the gain, per frame
  }

  push(pcm) {
    if (this.ended || this.state >= CLOSING) return;
    this.ring.push(pcm);
    this.total = this.ring.written;
    this.recover();
  }

  end() {
    if (this.ended) return;
    this.ended = true;
    this.ring.pushSilence(this.resampler.half); // the filter's look-ahead
    this.recover();
  }

  // Audio came while the fade before a gap had begun: no gap after all.
  recover() {
    if (this.state === PLAYING && this.slope < 0) this.slope = 1 / this.fade;
  }

  // Silence within the fade, or at once where nothing sounds.
  close() {
    if (this.state >= CLOSING) return;
    const sounding = this.state === PLAYING && this.gain > 0;
    this.state = sounding ? CLOSING : FINISHED;
    this.slope = -1 / Math.max(1, Math.min(this.fade, this.left()));
  }

  get played() {
    return Math.min(this.resampler.position, this.total);
  }

  get buffered() {
    return this.total - this.played;
  }

  // Device frames that can be made from what is there.
  left() {
    const { ring, resampler } = this;
    const last = this.ended ? this.total : ring.written - resampler.half;
    const samples = last - resampler.position;
    return samples <= 0 ? 0 : Math.ceil((samples * resampler.phases - resampler.phase) / resampler.step);
  }

  // Adds `count` frames to `out`.
  render(out, count) {
    if (this.state === WAITING || this.state === STARVED) this.begin(count);
    if (this.state !== PLAYING && this.state !== CLOSING) return;
    const { ring, resampler } = this;
    let left = this.left();
    for (let i = 0; i < count; i++) {
      if (!this.ended && this.slope >= 0 && left <= this.fade) this.slope = -1 / (left + 1);
      if (left <= 0) {
        this.dry();
        break;
      }
      out[i] += this.gain * resampler.sample(ring);
      resampler.advance();
      left--;
      if (this.slope !== 0 && this.ramp()) break;
    }
    ring.kept = Math.max(0, resampler.position - resampler.half);
  }

  begin(count) {
    const enough = this.ended || this.buffered >= this.threshold.needed(this.pace()) * this.rate;
    if (this.total > 0) this.waited += count;
    if (this.waited <= BURST_SECONDS * this.deviceRate) this.first = this.total;
    if (!enough) return;
    if (this.state === STARVED) {
      this.gain = 0;
      this.slope = 1 / this.fade;
    }
    this.state = PLAYING;
  }

  // Seconds of audio that came a second since the first; after a gap the threshold knows better.
  pace() {
    if (this.state === STARVED) return Infinity;
    return this.waited === 0 ? 0 : ((this.total - this.first) * this.deviceRate) / (this.rate * this.waited);
  }

  // One frame of the gain; true when the sound has ended for now.
  ramp() {
    this.gain += this.slope;
    if (this.gain >= 1) {
      this.gain = 1;
      this.slope = 0;
      return false;
    }
    if (this.gain > 1e-6 || this.slope > 0) return false;
    this.gain = 0;
    this.slope = 0;
    if (this.state === CLOSING) this.state = FINISHED;
    else this.starve();
    return true;
  }

  dry() {
    if (this.ended || this.state === CLOSING) this.state = FINISHED;
    else this.starve();
  }

  starve() {
    this.state = STARVED;
    this.underruns++;
    this.threshold.underrun();
  }
}
