// The typist: pieces and their timing. Run by `node --test`.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { AT_ONCE, Typist, pieces } from '../../web/typist.js';

function random(seed) {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

const TEXTS = [
  'Well, here we are.  Two spaces,\na line, and an extraordinarily long word.',
  ' leading and trailing ',
  '👩‍👩‍👧 family 👍🏽 and e\u0301 combined',
  '今日はいい天気ですね。散歩に行きましょう。',
  '   ',
  '',
];

test('the pieces are the text, and no piece ends in half a character', () => {
  for (const text of TEXTS) {
    for (let seed = 1; seed < 50; seed++) {
      const made = pieces(text, random(seed));
      assert.equal(made.join(''), text);
      for (const piece of made) assert.ok(piece.isWellFormed?.() ?? !/[\ud800-\udbff]$/.test(piece));
    }
  }
});

test('words come whole or in parts of a token\'s size', () => {
  const made = pieces('an extraordinarily long word', random(3));
  assert.ok(made.every((piece) => piece.length >= 1 && piece.length <= 7));
  assert.ok(made.length >= 5);
});

test('writes in order, ends once, at about the rate asked for', async () => {
  const text = 'one two three four five six seven eight nine ten '.repeat(4);
  let clock = 0;
  const written = [];
  const typist = new Typist({ rate: 1000, random: random(5), now: () => (clock += 0.05) });
  await new Promise((end) => typist.start(text, (piece) => written.push(piece), end));
  assert.equal(written.join(''), text);
});

test('a late timer writes everything that is due', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  let now = 0;
  const written = [];
  let ended = 0;
  const typist = new Typist({ rate: 10, random: random(5), now: () => now });
  typist.start('a b c d e f g h', (piece) => written.push(piece), () => ended++);
  assert.equal(written.length, 1);
  now = 60_000;
  context.mock.timers.tick(60_000);
  assert.equal(written.join(''), 'a b c d e f g h');
  assert.equal(ended, 1);
});

test('all at once is one go, and stop is final', (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const written = [];
  let ended = 0;
  new Typist({ rate: AT_ONCE, now: () => 0 }).start('a b c', (piece) => written.push(piece), () => ended++);
  assert.equal(written.join(''), 'a b c');
  assert.equal(ended, 1);
  const stopped = new Typist({ rate: 10, now: () => 0 });
  const some = [];
  stopped.start('a b c', (piece) => some.push(piece), () => ended++);
  stopped.stop();
  context.mock.timers.tick(60_000);
  assert.equal(some.length, 1);
  assert.equal(ended, 1);
});
