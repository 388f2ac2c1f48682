// Windowed-sinc polyphase resampler over a Ring. Output n stands at source position n * step / phases,
// kept in integers: it never drifts, and the same arithmetic runs however the source arrived in chunks,
// so the streamed output equals that of the whole, bit for bit.

const HALF = 16; // source samples on either side of an output sample, when not downsampling

export class Resampler {
  constructor(from, to) {
    const divisor = gcd(from, to);
    this.phases = to / divisor;
    this.step = from / divisor;
    this.same = from === to;
    this.half = this.same ? 1 : Math.ceil(HALF * Math.max(1, from / to));
    this.table = this.same ? null : table(this.phases, this.half, Math.min(1, to / from));
    this.reset();
  }

  reset() {
    this.position = 0; // floor of the source position of the next output sample
    this.phase = 0; // its fraction, in 1 / phases
  }

  // The sample that advance() will step over; needs ring positions up to position + half.
  sample(ring) {
    const { samples, mask } = ring;
    if (this.same) return samples[this.position & mask];
    const width = 2 * this.half;
    const { table } = this;
    let row = this.phase * width;
    let at = this.position - this.half + 1;
    let sum = 0;
    for (let k = 0; k < width; k++) sum += samples[at++ & mask] * table[row++];
    return sum;
  }

  advance() {
    this.phase += this.step;
    while (this.phase >= this.phases) {
      this.phase -= this.phases;
      this.position++;
    }
  }
}

// Row p holds the filter for fraction p / phases: sinc cut at the lower Nyquist, Kaiser window (beta 8,
// side lobes below -80 dB), each row scaled to sum 1 so that a constant stays a constant.
function table(phases, half, cutoff) {
  const width = 2 * half;
  const rows = new Float32Array(phases * width);
  const band = 0.93 * cutoff;
  for (let phase = 0; phase < phases; phase++) {
    let sum = 0;
    for (let k = 0; k < width; k++) {
      const x = k - half + 1 - phase / phases;
      const inside = Math.max(0, 1 - (x / half) ** 2);
      const value = sinc(band * x) * bessel(8 * Math.sqrt(inside));
      rows[phase * width + k] = value;
      sum += value;
    }
    for (let k = 0; k < width; k++) rows[phase * width + k] /= sum;
  }
  return rows;
}

function sinc(x) {
  return x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x);
}

function bessel(x) {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > 1e-12 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function gcd(a, b) {
  return b === 0 ? a : gcd(b, a % b);
}
