// A growing ring of samples with absolute positions: sample 0 is the utterance's first.
// Knows no rate and no clock. Grows only in push(), never while it is read.

export class Ring {
  constructor(capacity) {
    this.samples = new Float32Array(powerOfTwo(capacity));
    this.mask = this.samples.length - 1;
    this.written = 0; // positions below this hold samples
    this.kept = 0; // positions below this may be overwritten
  }

  clear() {
    this.samples.fill(0); // so that positions before 0 read as silence
    this.written = 0;
    this.kept = 0;
  }

  // pcm: Int16Array, little-endian machine order as every browser has it.
  push(pcm) {
    this.reserve(pcm.length);
    const { samples, mask } = this;
    let at = this.written;
    for (let i = 0; i < pcm.length; i++) samples[at++ & mask] = pcm[i] / 32768;
    this.written = at;
  }

  pushSilence(count) {
    this.reserve(count);
    for (let i = 0; i < count; i++) this.samples[this.written++ & this.mask] = 0;
  }

  reserve(count) {
    const needed = this.written + count - this.kept;
    if (needed <= this.samples.length) return;
    const samples = new Float32Array(powerOfTwo(needed));
    const mask = samples.length - 1;
    for (let at = this.kept; at < this.written; at++) {
      samples[at & mask] = this.samples[at & this.mask];
    }
    this.samples = samples;
    this.mask = mask;
  }
}

function powerOfTwo(least) {
  let size = 1024;
  while (size < least) size *= 2;
  return size;
}
