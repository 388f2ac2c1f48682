// The two things a visitor edits, inside one sentence: [voice] says: [text].

import { EXAMPLES, anyone } from './examples.js';

const LONG = 260; // characters; longer sentences are set smaller
const PAGE = 700;

// For screen readers and for the right Han glyphs. The model's names on the left.
const TAGS = {
  chinese: 'zh',
  english: 'en',
  french: 'fr',
  german: 'de',
  italian: 'it',
  japanese: 'ja',
  korean: 'ko',
  portuguese: 'pt',
  russian: 'ru',
  spanish: 'es',
};

export class Sentence {
  constructor({ voice, says, text }) {
    Object.assign(this, { voiceSlot: voice, says, textSlot: text });
    this.ownText = false; // written by the visitor: examples then change the voice only
    text.addEventListener('input', () => (this.ownText = text.textContent.trim() !== ''));
    for (const slot of [voice, text]) {
      if (slot.contentEditable !== 'plaintext-only') editPlainly(slot);
      slot.addEventListener('input', () => {
        if (!slot.textContent.trim()) slot.replaceChildren(); // else a stray line break hides the placeholder
        this.fit();
      });
    }
    this.fit();
  }

  get voice() {
    return this.voiceSlot.textContent.trim() || this.voiceSlot.dataset.placeholder;
  }

  get text() {
    return this.textSlot.textContent;
  }

  write({ voice, text }) {
    if (voice) this.voiceSlot.textContent = voice;
    if (text && !this.ownText) this.textSlot.textContent = text;
    this.fit();
  }

  speakIn(language) {
    this.textSlot.lang = TAGS[language] ?? '';
  }

  holds(node) {
    return node === this.voiceSlot || node === this.textSlot;
  }

  fit() {
    const length = this.voice.length + this.text.length;
    const size = length > PAGE ? 'page' : length > LONG ? 'long' : '';
    this.textSlot.closest('.sentence').dataset.length = size;
    this.says.textContent = this.voice.includes(',') ? ', says:' : ' says:';
  }

  // Fills `list` with "a, b, or anyone." as buttons. onchoose(): the sentence has changed.
  offerExamples(list, onchoose) {
    const choices = EXAMPLES.map(({ name, ...example }) => [name, () => example]);
    choices.push(['anyone', () => ({ voice: anyone(Math.random) })]);
    choices.forEach(([name, choose], i) => {
      const button = Object.assign(document.createElement('button'), { type: 'button', textContent: name });
      button.setAttribute('aria-label', `Speak as ${name}`);
      button.addEventListener('click', () => {
        this.write(choose());
        onchoose();
      });
      list.append(i === 0 ? '' : i === choices.length - 1 ? ', or ' : ', ', button);
    });
    list.append('.');
  }
}

// Browsers without plaintext-only: paste without the markup.
function editPlainly(slot) {
  slot.contentEditable = 'true';
  slot.addEventListener('paste', (event) => {
    event.preventDefault();
    document.execCommand('insertText', false, event.clipboardData.getData('text/plain'));
  });
}
