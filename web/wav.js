// s16le mono PCM -> a WAV file (RIFF, 44-byte header).

export function wav(chunks, rate) {
  const size = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
  const header = new DataView(new ArrayBuffer(44));
  const word = (at, letters) => [...letters].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
  word(0, 'RIFF');
  header.setUint32(4, 36 + size, true);
  word(8, 'WAVEfmt ');
  header.setUint32(16, 16, true); // length of the format block
  header.setUint16(20, 1, true); // PCM
  header.setUint16(22, 1, true); // channels
  header.setUint32(24, rate, true);
  header.setUint32(28, 2 * rate, true); // bytes a second
  header.setUint16(32, 2, true); // bytes a sample
  header.setUint16(34, 16, true); // bits a sample
  word(36, 'data');
  header.setUint32(40, size, true);
  return new Blob([header, ...chunks], { type: 'audio/wav' });
}
