// The audio thread's parts without a browser: ring, resampler, voice. Run by `node --test`.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Resampler } from '../../web/resampler.js';
import { Ring } from '../../web/ring.js';
import { CLOSING, FINISHED, PLAYING, STARVED, StartThreshold, Voice, WAITING } from '../../web/voice.js';

const RATE = 24000;
const DEVICES = [8000, 16000, 22050, 24000, 44100, 48000, 96000];

function tone(samples, hertz = 440, level = 12000) {
  return Int16Array.from({ length: samples }, (_, i) =>
    Math.round(level * Math.sin((2 * Math.PI * hertz * i) / RATE)));
}

// Starts with `seconds` in store, whatever the pace at which they come, unless `most` is more.
function voice(device = 48000, seconds = 0.1, most = seconds) {
  return new Voice(1, RATE, device, new StartThreshold(seconds, most));
}

// Messages of 80 ms, one every `frames` frames of a 48 kHz device, until sound starts: how many.
function messagesBeforeSound(frames, burst = 1) {
  const v = voice(48000, 0.2, 1.0);
  for (let message = 1; message < burst; message++) v.push(tone(1920));
  for (let message = burst; ; message++) {
    v.push(tone(1920));
    render(v, frames);
    if (v.state === PLAYING) return message;
  }
}

function render(v, frames, block = 128) {
  const out = new Float32Array(frames);
  for (let at = 0; at < frames; at += block) v.render(out.subarray(at, at + block), Math.min(block, frames - at));
  return out;
}

function steepest(samples) {
  let most = 0;
  for (let i = 1; i < samples.length; i++) most = Math.max(most, Math.abs(samples[i] - samples[i - 1]));
  return most;
}

for (const device of DEVICES) {
  test(`streamed equals whole, bit for bit, at ${device} Hz`, () => {
    const pcm = tone(9600, 523);
    const frames = Math.ceil((pcm.length * device) / RATE);
    const whole = voice(device, 0);
    whole.push(pcm);
    whole.end();
    const expected = render(whole, frames);
    for (const [chunk, block] of [[1920, 128], [7, 128], [333, 1], [1920, 4096], [4801, 500]]) {
      const streamed = voice(device, 0);
      const out = new Float32Array(frames);
      let sent = 0;
      for (let at = 0; at < frames; at += block) {
        const count = Math.min(block, frames - at);
        while (!streamed.ended && streamed.left() <= count + streamed.fade) {
          if (sent >= pcm.length) streamed.end();
          else streamed.push(pcm.subarray(sent, (sent += chunk)));
        }
        streamed.render(out.subarray(at, at + count), count);
      }
      assert.deepEqual(out, expected, `chunks of ${chunk}, blocks of ${block}`);
      assert.equal(streamed.underruns, 0);
      assert.equal(streamed.played, pcm.length);
    }
  });

  test(`a tone keeps its pitch and level at ${device} Hz`, () => {
    const v = voice(device, 0);
    v.push(tone(RATE, 440, 16384));
    v.end();
    const out = render(v, device);
    let error = 0;
    for (let i = 1000; i < device - 1000; i++) {
      const ideal = 0.5 * Math.sin((2 * Math.PI * 440 * i) / device);
      error = Math.max(error, Math.abs(out[i] - ideal));
    }
    assert.ok(error < 2e-4, `largest error ${error}`); // 16-bit input is itself 1.5e-5 off
  });
}

test('what lies above the lower Nyquist frequency is gone after downsampling', () => {
  const v = voice(8000, 0);
  v.push(tone(RATE, 6000, 16384));
  v.end();
  const out = render(v, 8000).subarray(200, 7800);
  assert.ok(Math.max(...out.map(Math.abs)) < 1e-3);
});

test('sound starts at the threshold, not before', () => {
  const v = voice(48000, 0.1);
  v.push(tone(1920));
  assert.ok(render(v, 512).every((x) => x === 0));
  assert.equal(v.state, WAITING);
  v.push(tone(1920));
  render(v, 512);
  assert.equal(v.state, PLAYING);
});

test('the slower audio comes, the more of it is awaited', () => {
  assert.equal(messagesBeforeSound(384), 3); // ten times as fast as it plays
  assert.equal(messagesBeforeSound(1536), 6); // two and a half times
  assert.equal(messagesBeforeSound(3584), 13); // hardly faster: a second
});

test('a burst tells nothing of the pace', () => {
  assert.equal(messagesBeforeSound(3584, 5), 13);
});

test('a short utterance starts at its end, however little there is', () => {
  const v = voice(48000, 0.1);
  v.push(tone(480));
  v.end();
  render(v, 2048);
  assert.equal(v.state, FINISHED);
  assert.equal(v.played, 480);
  assert.equal(v.underruns, 0);
});

test('an underrun fades out, is counted once, and comes back with a fade', () => {
  const v = voice(48000, 0.05, 0.1);
  v.push(tone(2400, 1000));
  const first = render(v, 9600);
  assert.equal(v.state, STARVED);
  assert.equal(v.underruns, 1);
  assert.ok(first.subarray(4900).every((x) => x === 0));
  v.push(tone(2000, 1000));
  assert.ok(render(v, 256).every((x) => x === 0), 'waits for the doubled threshold');
  v.push(tone(2400, 1000));
  const again = render(v, 2400);
  assert.equal(v.state, PLAYING);
  assert.ok(Math.abs(again[0]) < 0.01);
  const natural = (2 * Math.PI * 1000 * 12000) / 32768 / 48000; // steepest step of the tone itself
  assert.ok(steepest([...first, ...again]) < 1.15 * natural, 'no click');
});

test('audio that comes during the fade takes the gap back', () => {
  const v = voice(48000, 0.05);
  v.push(tone(2400));
  while (v.slope >= 0) render(v, 16, 16);
  v.push(tone(4800));
  render(v, 4800);
  assert.equal(v.underruns, 0);
  assert.equal(v.gain, 1);
});

test('close is silence within the fade, without a click', () => {
  const v = voice(48000, 0.05);
  v.push(tone(24000, 1000));
  const before = render(v, 1000);
  v.close();
  assert.equal(v.state, CLOSING);
  const after = render(v, 1000);
  assert.ok(after.subarray(Math.ceil(0.006 * 48000) + 1).every((x) => x === 0));
  assert.equal(v.state, FINISHED);
  assert.ok(steepest([...before, ...after]) < 1.15 * ((2 * Math.PI * 1000 * 12000) / 32768 / 48000));
  v.push(tone(1920));
  assert.equal(v.total, 24000, 'what comes later is dropped');
});

test('close before the first sound is silence at once', () => {
  const v = voice();
  v.push(tone(1920));
  v.close();
  assert.equal(v.state, FINISHED);
});

test('the start threshold doubles after an underrun and eases back in calm', () => {
  const threshold = new StartThreshold(0.1, 0.5, 10);
  threshold.underrun();
  assert.equal(threshold.seconds, 0.2);
  threshold.underrun();
  threshold.underrun();
  assert.equal(threshold.seconds, 0.5);
  for (let second = 0; second < 200; second++) threshold.played(1);
  assert.equal(threshold.seconds, 0.1);
});

test('the ring keeps its size while audio is played as it comes, and grows when it is not', () => {
  const v = voice(48000, 0.05);
  const size = v.ring.samples.length;
  const out = new Float32Array(128);
  for (let frame = 0; frame < 750; frame++) {
    v.push(tone(1920));
    while (v.left() > 9600) v.render(out, 128);
  }
  assert.equal(v.ring.samples.length, size, 'a minute through the same memory');
  const ring = new Ring(1024);
  ring.push(tone(900));
  ring.kept = 500;
  ring.push(tone(900).reverse());
  ring.push(tone(5000));
  assert.equal(ring.samples.length, 8192);
  assert.equal(ring.samples[600 & ring.mask], tone(900)[600] / 32768);
  assert.equal(ring.samples[900 & ring.mask], tone(900)[899] / 32768);
});

test('render allocates nothing, once it is compiled', () => {
  const out = new Float32Array(128);
  const rounds = Array.from({ length: 10 }, () => {
    const v = voice(44100, 0);
    for (let i = 0; i < 50; i++) v.push(tone(1920)); // only render is measured
    globalThis.gc();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 1200; i++) v.render(out, 128);
    return process.memoryUsage().heapUsed - before;
  });
  assert.ok(Math.min(...rounds) < 16_000, `${rounds} bytes`); // an object a block would be 19 kB at least
});

test('the resampler never drifts', () => {
  const r = new Resampler(24000, 44100);
  for (let i = 0; i < 44100 * 600; i++) r.advance();
  assert.equal(r.position, 24000 * 600);
  assert.equal(r.phase, 0);
});
