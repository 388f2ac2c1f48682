// Light and dark: the system's choice until the visitor makes one; and the voice's colour.

const darkness = matchMedia('(prefers-color-scheme: dark)');
const root = document.documentElement;

// button: names the other theme. onchange(): colours have changed.
export function offerTheme(button, onchange) {
  const chosen = () => localStorage.getItem('theme');
  const show = (dark) => {
    root.dataset.theme = dark ? 'dark' : 'light';
    button.textContent = dark ? 'light' : 'dark';
    button.setAttribute('aria-label', `${button.textContent} colours`);
    onchange();
  };
  darkness.addEventListener('change', () => chosen() ?? show(darkness.matches));
  button.addEventListener('click', () => {
    const dark = root.dataset.theme !== 'dark';
    localStorage.setItem('theme', dark ? 'dark' : 'light');
    show(dark);
  });
  show(chosen() === null ? darkness.matches : chosen() === 'dark');
}

// Neighbouring seeds get far-apart hues (the golden angle).
export function colourOf(seed) {
  const hue = (Number(seed) * 137.508) % 360;
  root.style.setProperty('--hue', Number.isFinite(hue) ? hue.toFixed(1) : '75');
}
