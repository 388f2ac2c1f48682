// Layout of the numbers the audio thread posts: a header, then BUCKETS pairs (low, high) of 10 ms each.

export const FIELDS = {
  frame: 0, // of the audio clock, at the end of the last bucket
  id: 1, // newest voice, -1: none
  state: 2,
  played: 3, // samples of that voice
  buffered: 4,
  underruns: 5,
  threshold: 6, // seconds
  firstSound: 7, // frame, -1: not yet
  lastSound: 8, // frame, any voice
};
export const HEADER = 9;
export const BUCKETS = 4;
