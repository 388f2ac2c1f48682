// One press of "Speak": text out by the typist, audio in to the player, and when each thing happened.
// Knows no DOM. Times are seconds since the press, on performance.now().

import { AT_ONCE, Typist } from './typist.js';

const REPORT_SECONDS = 0.25;
const SHOW_SECONDS = 0.2; // between two looks at figures that creep
const LAST_WORD = 16; // characters

export class Take {
  // request: fields of `speak`. onchange(take): something worth showing has changed.
  constructor({ client, player, request, text, rate, onchange }) {
    Object.assign(this, { client, player, request, text, onchange });
    this.typist = new Typist({ rate });
    this.atOnce = rate === AT_ONCE;
    this.pressed = performance.now() / 1000;
    this.utterance = null;
    this.phase = 'opening'; // opening, speaking, finished, stopped, failed
    this.error = null;
    this.done = null;
    this.waking = false; // the server's engine is
    this.started = null;
    this.pcm = []; // as received
    this.sent = []; // [time, characters so far]
    this.received = []; // [time, samples so far]
    this.peaks = []; // [time, low, high] of 10 ms each, as played
    this.loudest = 0;
    this.end = null; // time it was over
    this.written = 0; // characters sent
    this.textEnded = null; // time
    this.samples = 0; // received
    this.played = 0; // samples
    this.underruns = 0; // the loudspeaker ran dry
    this.pauses = 0; // of these, because no text was there to be spoken
    this.fed = 0; // characters the engine has taken
    this.playing = false;
    this.starved = false;
    this.lead = 0; // seconds received and not yet played
    this.firstAudio = null; // time the first audio message arrived
    this.firstSound = null; // time the first audible sample reached the ear
    this.reported = -1;
    this.shown = -1;
  }

  get now() {
    return performance.now() / 1000 - this.pressed;
  }

  // Speech has caught up with the writing. The engine keeps the last, perhaps unfinished word back.
  get textShort() {
    return this.textEnded === null && this.fed > 0 && this.written - this.fed < LAST_WORD;
  }

  get gaps() {
    return this.underruns - this.pauses;
  }

  // After a failure, what had arrived is still heard.
  get sounding() {
    return this.live || this.playing;
  }

  get live() {
    return this.phase === 'opening' || this.phase === 'speaking';
  }

  async start() {
    // First of all, while the press still counts; the server need not wait for the loudspeaker.
    this.player.unlock().catch((error) => this.fail(error));
    try {
      const ready = await this.client.reach((error) => this.wait(error));
      if (!this.live) return;
      this.rate = ready.rate;
      this.utterance = await this.client.speak(this.opening(), {
        started: (message) => this.change({ started: message }),
        audio: (message) => this.hear(message),
        progress: ({ chars }) => (this.fed = chars),
        done: (message) => this.finish(message),
        error: (error) => this.fail(error),
      });
      if (!this.live) return this.utterance.cancel(0);
      this.player.open(this.utterance.name, ready.rate);
      this.change({ phase: 'speaking' });
      if (this.atOnce) this.wholeText();
      else this.typist.start(this.text, (piece) => this.write(piece), () => this.endText());
    } catch (error) {
      this.fail(error);
    }
  }

  // Whether to wait for a server that refused: only while its engine starts.
  wait(error) {
    this.change({ waking: error.starting === true });
    return this.live && this.waking;
  }

  opening() {
    return this.atOnce ? { ...this.request, text: this.text, end: true } : this.request;
  }

  wholeText() {
    this.written = this.text.length;
    this.sent.push([this.now, this.written]);
    this.change({ textEnded: this.now });
  }

  write(piece) {
    this.utterance.write(piece);
    this.written += piece.length;
    this.sent.push([this.now, this.written]);
    this.onchange(this);
  }

  endText() {
    this.utterance.end();
    this.change({ textEnded: this.now });
  }

  hear({ pcm, samples }) {
    this.firstAudio ??= this.now;
    this.player.push(this.utterance.name, pcm);
    this.pcm.push(pcm);
    this.samples += samples;
    this.received.push([this.now, this.samples]);
  }

  finish(done) {
    this.done = done;
    if (this.phase === 'stopped') return this.onchange(this);
    this.player.end(this.utterance.name);
    this.onchange(this);
    if (this.samples === 0) this.change({ phase: 'finished' });
  }

  // Barge-in: the loudspeaker first, then the server.
  stop() {
    this.typist.stop();
    if (this.utterance) {
      const heard = this.player.heard(this.utterance.name);
      this.player.close(this.utterance.name);
      this.utterance.cancel(heard);
    }
    const phase = this.live ? 'stopped' : this.phase;
    this.change({ phase, playing: false, lead: 0 });
  }

  fail(error) {
    if (!this.live) return;
    this.typist.stop();
    this.utterance?.cancel(this.player.heard(this.utterance.name));
    if (this.utterance) this.player.end(this.utterance.name); // what has arrived may still be heard
    this.change({ phase: 'failed', error });
  }

  // A report of the player, about this utterance or another.
  report(report) {
    if (this.live) this.trace(report);
    if (report.name === null || report.name !== this.utterance?.name) return;
    const { played, underruns, starved, playing, finished, at } = report;
    const news = finished || starved !== this.starved || (this.firstSound === null && report.firstSound !== null);
    if (report.firstSound !== null) this.firstSound ??= report.firstSound - this.pressed;
    if (this.textShort) this.pauses += underruns - this.underruns;
    this.lead = report.buffered / report.rate;
    Object.assign(this, { played, underruns, starved, playing });
    if (at - this.reported >= REPORT_SECONDS || finished) {
      this.reported = at;
      this.utterance.report(played);
    }
    if (finished && this.phase === 'speaking') this.change({ phase: 'finished' });
    else if (news || at - this.shown >= SHOW_SECONDS) {
      this.shown = at;
      this.onchange(this);
    }
  }

  trace({ at, peaks }) {
    for (let i = 0; i < peaks.length; i += 2) {
      const time = at - this.pressed - (0.01 * (peaks.length - i)) / 2;
      if (time <= 0) continue;
      this.peaks.push([time, peaks[i], peaks[i + 1]]);
      this.loudest = Math.max(this.loudest, peaks[i + 1], -peaks[i]);
    }
  }

  // Characters of the text heard when `samples` have been: spread evenly over the audio, whose length
  // is guessed (15 characters a second) until the server is done.
  heardCharacters(samples) {
    const guess = Math.max(this.samples, (this.text.length / 15) * (this.rate ?? 24000));
    const total = this.done ? this.samples : guess;
    const reached = total === 0 ? 0 : Math.round((this.text.length * samples) / total);
    if (reached === 0) return 0;
    return Math.min(this.written, reached + this.text.slice(reached).search(/\s|$/)); // whole words
  }

  change(values) {
    Object.assign(this, values);
    if (!this.live) this.end ??= this.now;
    this.onchange(this);
  }
}
