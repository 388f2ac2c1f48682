// Draws a take on one line of time: text written, audio received, audio heard. Knows no player and no socket.

const ROWS = ['written', 'received', 'heard'];
const SHORTEST = 8; // seconds shown at least
const LONGEST = 40; // seconds shown at most while it runs; the whole take once it is over

export class Scope {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    this.span = SHORTEST;
    this.level = 0;
  }

  // take: a Take or null; now: seconds since its press.
  draw(take, now) {
    const { context: c, canvas } = this;
    const style = getComputedStyle(canvas);
    const scale = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, width, height);
    const colours = {
      ink: style.color,
      voice: style.getPropertyValue('outline-color'),
      faint: style.getPropertyValue('border-top-color'),
    };
    c.font = `italic 15px ${style.fontFamily}`;
    const view = this.view(take, now, width, height);
    this.tracks(view, colours);
    if (take === null) return;
    this.words(take, view, colours);
    this.frames(take, view, colours);
    this.wave(take, view, colours);
    this.marks(take, view, colours);
  }

  view(take, now, width, height) {
    const left = 68;
    const end = take === null ? 0 : now;
    const wanted = Math.max(SHORTEST, Math.min(take?.live ? LONGEST : Infinity, end * 1.04));
    this.span += (wanted - this.span) * (wanted < this.span ? 0.25 : 0.12);
    if (Math.abs(wanted - this.span) < 0.01) this.span = wanted;
    const from = Math.max(0, end * 1.02 - this.span);
    const across = (width - left - 4) / this.span;
    return {
      left,
      width,
      rows: [12, 40, (40 + height) / 2 - 4],
      tall: (height - 40) / 2 - 22,
      from,
      to: from + this.span,
      now: end,
      x: (time) => left + (time - from) * across,
    };
  }

  tracks(view, colours) {
    const { context: c } = this;
    c.textBaseline = 'middle';
    c.textAlign = 'left';
    c.lineWidth = 1;
    ROWS.forEach((name, row) => {
      const y = Math.round(view.rows[row]) + 0.5;
      c.fillStyle = colours.ink;
      c.globalAlpha = 0.75;
      c.fillText(name, 0, y);
      c.globalAlpha = 1;
      c.strokeStyle = colours.faint;
      c.beginPath();
      c.moveTo(view.left, y);
      c.lineTo(view.width, y);
      c.stroke();
    });
  }

  // Each piece of text: a stroke where it was sent.
  words(take, view, colours) {
    const { context: c } = this;
    const y = view.rows[0];
    c.fillStyle = colours.ink;
    let before = 0;
    for (const [time, written] of take.sent) {
      const tall = 2.5 + Math.min(6, written - before);
      before = written;
      if (time < view.from) continue;
      c.fillRect(Math.round(view.x(time)) - 1, y - tall, 1.5, 2 * tall);
    }
  }

  // Each audio message: a square where it arrived.
  frames(take, view, colours) {
    const { context: c } = this;
    const y = view.rows[1];
    c.fillStyle = colours.voice;
    for (const [time] of take.received) {
      if (time < view.from) continue;
      c.fillRect(view.x(time) - 2, y - 2, 4, 4);
    }
  }

  // One bar of two pixels in every three: the lowest and highest sample that left the worklet there.
  wave(take, view, colours) {
    const { context: c } = this;
    const y = view.rows[2];
    const { peaks } = take;
    const gain = view.tall / Math.max(0.25, take.loudest);
    c.fillStyle = colours.voice;
    let i = firstFrom(peaks, view.from);
    while (i < peaks.length && peaks[i][0] <= view.now) {
      const column = Math.floor(view.x(peaks[i][0]) / 3);
      let low = 0;
      let high = 0;
      for (; i < peaks.length && Math.floor(view.x(peaks[i][0]) / 3) === column; i++) {
        low = Math.min(low, peaks[i][1]);
        high = Math.max(high, peaks[i][2]);
      }
      if (high - low < 0.002) continue;
      c.fillRect(column * 3, y - high * gain - 0.5, 2, (high - low) * gain + 1); // whole pixels across: cheap
    }
    this.head(take, view, colours, peaks);
  }

  // The playhead is the level meter: its length follows the loudness of now.
  head(take, view, colours, peaks) {
    if (!take.live || take.firstSound === null) return;
    const { context: c } = this;
    const recent = peaks.slice(-6).reduce((most, peak) => Math.max(most, peak[2], -peak[1]), 0);
    this.level = Math.max(recent, this.level * 0.88);
    const x = view.x(view.now);
    const tall = 4 + (view.tall * this.level) / Math.max(0.25, take.loudest);
    c.strokeStyle = colours.ink;
    c.lineWidth = 3;
    c.beginPath();
    c.moveTo(x, view.rows[2] - tall);
    c.lineTo(x, view.rows[2] + tall);
    c.stroke();
  }

  // Hairlines where sound began and where the text ended. Nothing is written after the end, so its label
  // stands on the written line; that of the sound stands under its wave.
  marks(take, view, colours) {
    this.mark(take.textEnded, 'complete', view, colours, view.rows[0]);
    this.mark(take.firstSound, 'first sound', view, colours, view.rows[2] + view.tall + 13);
  }

  mark(time, label, view, colours, y) {
    if (time === null || time < view.from) return;
    const { context: c } = this;
    const x = Math.round(view.x(time)) + 0.5;
    c.strokeStyle = colours.ink;
    c.lineWidth = 1;
    c.globalAlpha = 0.5;
    c.beginPath();
    c.moveTo(x, 0);
    c.lineTo(x, view.rows[2] + view.tall + 20);
    c.stroke();
    c.globalAlpha = 1;
    const room = c.measureText(label).width + 12;
    const side = x + room > view.width ? -1 : 1;
    c.clearRect(side > 0 ? x + 2 : x - room - 2, y - 8, room, 16); // the line would strike it through
    c.fillStyle = colours.ink;
    c.textAlign = side > 0 ? 'left' : 'right';
    c.fillText(label, x + 7 * side, y);
  }
}

function firstFrom(peaks, time) {
  let low = 0;
  let high = peaks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (peaks[middle][0] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}
