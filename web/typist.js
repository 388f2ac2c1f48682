// Writes a text the way a language model does: pieces of a few characters, unevenly spaced.
// Times are milliseconds. A late timer (hidden tab) writes everything that is due by then.

export const AT_ONCE = Infinity;

// Pieces whose concatenation is the text; never half a surrogate pair. random: () => [0, 1).
export function pieces(text, random) {
  const words = text.match(/\s*\S+|\s+$/gu) ?? [];
  return words.flatMap((word) => split([...word], random));
}

// A short word goes whole, a long one (or a script without spaces) in parts, as tokens do.
function split(characters, random) {
  const parts = [];
  let rest = characters;
  while (rest.length > 0) {
    const most = isDense(rest) ? 2 : 7;
    const size = rest.length <= most ? rest.length : 1 + Math.floor(random() * most);
    parts.push(rest.slice(0, size).join(''));
    rest = rest.slice(size);
  }
  return parts;
}

function isDense(characters) {
  return /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]/u.test(characters[0]);
}

export class Typist {
  // rate: pieces a second; AT_ONCE writes all in one go.
  constructor({ rate, random = Math.random, now = () => performance.now() }) {
    this.rate = rate;
    this.random = random;
    this.now = now;
    this.timer = 0;
    this.stopped = false;
  }

  // Calls write(piece) for each piece, then end().
  start(text, write, end) {
    const queue = pieces(text, this.random);
    let due = this.now();
    const work = () => {
      while (!this.stopped && queue.length > 0 && due <= this.now()) {
        write(queue.shift());
        due += this.pause();
      }
      if (this.stopped) return;
      if (queue.length === 0) end();
      else this.timer = setTimeout(work, due - this.now());
    };
    work();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  // Between pieces: mostly even, now and then a breath of several pieces' length, as models stall.
  pause() {
    const even = (0.4 + this.random()) * 0.9;
    const breath = this.random() < 0.03 ? 4 : 0;
    return ((even + breath) * 1000) / this.rate;
  }
}
