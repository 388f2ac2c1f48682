// Viva Voce protocol v1 over one WebSocket, for browsers and for Node (pass its WebSocket class).
// Knows no sound and no page.
//
//   const client = new Client('ws://localhost:8000/v1/speech');
//   const utterance = await client.speak({ voice: { design: 'A calm older man' } });
//   utterance.write('Well, here we are.');
//   utterance.end();
//   for await (const pcm of utterance) loudspeaker.play(pcm); // Uint8Array, s16le

import { decode, encode } from './vendor/msgpack.js';

const SUBPROTOCOL = 'vivavoce.v1.msgpack';
const PATIENCE_MS = 10_000; // from opening the socket to `ready`
const LONGEST_PAUSE_MS = 8_000; // between two tries to connect

// The server said no. `code` is one of the protocol's error codes.
export class Refused extends Error {
  constructor({ code, message, retry_ms = null, fatal = false }) {
    super(message);
    this.code = code;
    this.retryMs = retry_ms;
    this.fatal = fatal;
  }

  // The engine behind the server is not there yet: wait.
  get starting() {
    return this.fatal && this.code === 'busy';
  }
}

// The socket broke or could not be opened. `refused`: the fatal error that came before, if any.
export class Lost extends Error {
  constructor({ code = 1006, reason = '' } = {}, refused = null, opened = true) {
    super(reason || `connection closed (${code})`);
    this.code = code;
    this.refused = refused;
    this.opened = opened;
  }
}

export class Client {
  constructor(url, { token = '', WebSocket = globalThis.WebSocket, onlost = () => {} } = {}) {
    this.url = url;
    this.token = token;
    this.WebSocket = WebSocket;
    this.onlost = onlost;
    this.socket = null;
    this.connecting = null;
    this.ready = null; // the server's `ready`, while connected
    this.refused = null;
    this.utterances = new Map();
    this.prefix = Math.random().toString(36).slice(2, 8);
    this.count = 0;
  }

  // Resolves with `ready`; at once where the socket is open. Throws Lost or Refused.
  connect() {
    this.connecting ??= new Promise((resolve, reject) => this.open(resolve, reject));
    return this.connecting;
  }

  // `connect`, until it succeeds, `goon(error)` says no, or the server wants no such client.
  async reach(goon) {
    for (let pause = 500; ; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      try {
        return await this.connect();
      } catch (error) {
        const hopeless = error instanceof Refused && !['busy', 'draining'].includes(error.code);
        if (hopeless || !goon(error)) throw error;
        await new Promise((resolve) => setTimeout(resolve, error.retryMs ?? pause));
      }
    }
  }

  // Opens an utterance. `request`: fields of `speak` but the name. `on`: handlers by message type.
  async speak(request, on = {}) {
    await this.connect();
    const name = `${this.prefix}-${++this.count}`;
    const utterance = new Utterance(this, name, on);
    this.utterances.set(name, utterance);
    this.send({ type: 'speak', utterance: name, ...request });
    return utterance;
  }

  close() {
    this.socket?.close(1000);
  }

  open(resolve, reject) {
    const socket = new this.WebSocket(this.url, [SUBPROTOCOL]);
    socket.binaryType = 'arraybuffer';
    this.socket = socket;
    this.refused = null;
    const patience = setTimeout(() => socket.close(), PATIENCE_MS);
    socket.onopen = () => {
      this.send(this.token ? { type: 'hello', token: this.token } : { type: 'hello' });
    };
    socket.onmessage = ({ data }) => {
      const message = decode(new Uint8Array(data));
      if (message.type === 'ready') {
        clearTimeout(patience);
        this.ready = message;
        resolve(message);
      } else this.receive(message);
    };
    socket.onclose = (event) => {
      clearTimeout(patience);
      if (this.socket !== socket) return;
      const lost = new Lost(event, this.refused, this.ready !== null);
      this.socket = this.connecting = this.ready = null;
      for (const utterance of [...this.utterances.values()]) utterance.fail(lost);
      reject(this.refused ?? lost);
      this.onlost(lost);
    };
  }

  send(message) {
    if (this.socket?.readyState === 1) this.socket.send(encode(message));
  }

  receive(message) {
    const utterance = this.utterances.get(message.utterance);
    if (utterance) utterance.receive(message);
    else if (message.type === 'error' && !message.utterance) this.refused = new Refused(message);
  }
}

// One text-to-speech run. `finished` resolves with `done`, or throws Refused or Lost.
export class Utterance {
  constructor(client, name, on) {
    this.client = client;
    this.name = name;
    this.on = on;
    this.cancelled = false;
    this.over = false;
    this.chunks = []; // PCM nobody has asked for yet; kept only where no handler takes it
    this.wake = null;
    this.finished = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
    this.finished.catch(() => {}); // a caller who only listens to handlers is no error
  }

  write(text) {
    this.send({ type: 'text', text });
  }

  flush() {
    this.send({ type: 'flush' });
  }

  end() {
    this.send({ type: 'end' });
  }

  // Samples that have been played so far.
  report(samples) {
    this.send({ type: 'played', samples });
  }

  // Barge-in. Silence your loudspeaker first; no audio of this utterance is delivered from now on.
  cancel(played = null) {
    if (this.over || this.cancelled) return;
    this.send(played === null ? { type: 'cancel' } : { type: 'cancel', played });
    this.cancelled = true;
    this.wake?.();
  }

  send(message) {
    if (!this.over && !this.cancelled) this.client.send({ ...message, utterance: this.name });
  }

  receive(message) {
    if (this.over || (this.cancelled && message.type === 'audio')) return;
    if (message.type === 'error') return this.fail(new Refused(message));
    if (message.type === 'done') {
      this.finish();
      this.resolve(message);
    }
    this.on[message.type]?.(message);
    if (message.type === 'audio' && !this.on.audio) this.chunks.push(message.pcm);
    this.wake?.();
  }

  fail(error) {
    this.finish();
    this.reject(error);
    this.on.error?.(error);
    this.wake?.();
  }

  finish() {
    this.over = true;
    this.client.utterances.delete(this.name);
  }

  // PCM as it arrives, to the end or the cancel; throws what `finished` throws.
  async *[Symbol.asyncIterator]() {
    while (!this.cancelled) {
      if (this.chunks.length > 0) yield this.chunks.shift();
      else if (this.over) return void (await this.finished);
      else await new Promise((resolve) => (this.wake = resolve));
    }
  }
}
