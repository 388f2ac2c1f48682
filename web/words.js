// What went wrong, said plainly.

import { Lost, Refused } from './client.js';
import { NoSound } from './player.js';

const REFUSALS = {
  busy: 'Every voice is taken at the moment.',
  draining: 'The server is about to restart and takes no new text. Try again in a minute.',
  engine_failed: 'The speech engine broke down and is being started again. Try again in a moment.',
  unauthorized: 'This server asks for a key.',
  forbidden_origin: 'This server does not accept pages from this address.',
  rate_limited: 'That was too much at once for this server. Wait a little, then try again.',
  too_many: 'Too many voices are speaking on this connection.',
  too_large: 'That is longer than this server accepts.',
  slow_client: 'The connection is too slow for the sound, so the server gave up.',
  text_timeout: 'The text stopped coming, so the server ended the utterance.',
  idle_timeout: 'The connection was closed because nothing happened on it.',
};

const ENDINGS = {
  empty: 'There is nothing in that text to speak.',
  length: 'Stopped at the length limit.',
  guard_silence: 'Stopped: the voice had fallen silent without finishing.',
  guard_loop: 'Stopped: the voice had begun to repeat itself.',
  text_timeout: REFUSALS.text_timeout,
};

export function trouble(error) {
  if (error instanceof NoSound) return error.message;
  if (error instanceof Lost) return lost(error);
  if (error instanceof Refused) return refused(error);
  return `Something in this page broke: ${error.message}`;
}

function lost(error) {
  if (error.refused) return refused(error.refused);
  if (!error.opened) return 'No server answers. This page keeps trying.';
  if (error.code === 1012) return 'The server restarts. This page connects again.';
  return 'The connection broke. This page connects again.';
}

function refused({ code, message, retryMs, starting }) {
  if (starting) return 'The voice is waking up. This page waits for it.';
  const plain = REFUSALS[code] ?? `The server refused: ${message}`;
  return retryMs === null ? plain : `${plain} Try again in ${Math.ceil(retryMs / 1000)} s.`;
}

// A `done` that is worth a word; '' for the ordinary ones.
export function ending(done) {
  return ENDINGS[done.reason] ?? '';
}
