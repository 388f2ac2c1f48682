// web/client.js outside the page: what a chatbot does. Prints the frames heard, then is interrupted.

import { Client } from '../../web/client.js';

const client = new Client(process.argv[2]);

async function* reply() {
  for (const piece of ['Well,', ' here', ' we', ' are.', ' Ask', ' me', ' something.']) yield piece;
}

const utterance = await client.speak({ voice: { design: 'A calm older man' }, seed: 7 });
const writing = (async () => {
  for await (const piece of reply()) utterance.write(piece);
  utterance.end();
})();
let samples = 0;
for await (const pcm of utterance) samples += pcm.byteLength / 2;
await writing;
console.log(JSON.stringify({ samples, done: await utterance.finished }));

const second = await client.speak({ voice: { design: 'A calm older man' }, seed: 7 });
second.write('This is never heard to its end, because somebody talks over it after the first frame.');
second.end();
for await (const pcm of second) second.cancel(pcm.byteLength / 2);
console.log(JSON.stringify({ done: await second.finished }));
client.close();
