// Layout of the numbers the audio thread posts: a header, then BUCKETS pairs (low, high) of 10 ms each.
// Beside them it posts a bare number once for each voice: its id, when its first audible sample is made.

export const FIELDS = {
  frame: 0, // of the audio clock, at the end of the last bucket
  id: 1, // newest voice, -1: none
  state: 2,
  played: 3, // samples of that voice
  buffered: 4,
  underruns: 5,
  threshold: 6, // seconds
  lastSound: 7, // frame, any voice
};
export const HEADER = 8;
export const BUCKETS = 4;
