// Voices worth trying: a name for the page's own sentence, the description, a text that suits it.

export const EXAMPLES = [
  {
    name: 'a calm older man',
    voice: 'A calm older man, low and dry',
    text: 'Well, here we are. You are hearing the beginning of this sentence while the end of it is still being written.',
  },
  {
    name: 'a girl with a secret',
    voice: 'A young girl, bright and breathy, almost whispering',
    text: 'Promise not to tell anyone. There is a door behind the bookcase, and last night it was open.',
  },
  {
    name: 'a ferry captain',
    voice: 'A deep male voice, speaking slowly',
    text: 'We leave the harbour in ten minutes. The sea is calm, the coffee is hot, and nobody is in a hurry.',
  },
  {
    name: 'a newsreader',
    voice: 'A clear middle-aged woman with a British accent, even and precise',
    text: 'Good evening. The bridge that was closed in March will open again on Monday, a week earlier than planned.',
  },
  {
    name: 'an eager guide',
    voice: 'A young woman, bright and fast, with a lively melody',
    text: 'And if you look up, right there above the clock, you can see where the painter signed his own ceiling!',
  },
  {
    name: 'a patient teacher',
    voice: 'A warm woman with an American accent, speaking slowly',
    text: 'Take your time. First we find out what we know, then what we want to know, and then we draw a picture of it.',
  },
  {
    name: 'a night porter',
    voice: 'An older man with a dark, flat voice, quiet',
    text: 'Your key, sir. Breakfast is from seven. If you hear footsteps on the third floor, that is only the house.',
  },
  {
    name: 'a chess player',
    voice: 'A young man with a high, dry voice, speaking fast',
    text: 'If the knight goes to f six, the bishop is lost; if it stays, the queen is. So, really, it was over at lunch.',
  },
];

export const ANYONE = {
  ages: ['A young', 'A middle-aged', 'An old'],
  people: ['man', 'woman'],
  pitches: ['deep', 'low', 'high', 'bright', 'dark', 'breathy', 'clear', 'warm'],
  manners: ['speaking slowly', 'speaking fast', 'with a lively melody', 'in a flat, even tone'],
};

// random: () => [0, 1)
export function anyone(random) {
  const pick = (list) => list[Math.floor(random() * list.length)];
  const { ages, people, pitches, manners } = ANYONE;
  return `${pick(ages)} ${pick(people)} with a ${pick(pitches)} voice, ${pick(manners)}`;
}
