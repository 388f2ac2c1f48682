// The sentence as a link: #voice=...&text=...&seed=...; a fragment never reaches the server.

export function read(hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  return { voice: fields.get('voice'), text: fields.get('text'), seed: fields.get('seed') };
}

export function write({ voice, text, seed }) {
  return `#${new URLSearchParams({ voice, text, seed })}`;
}
