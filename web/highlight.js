// Shows on the text itself how much of it is written and how much is heard, without touching it:
// the CSS Custom Highlight API. Browsers without it show the text as it is.

const supported = typeof Highlight !== 'undefined' && CSS.highlights !== undefined;

let shown = '';

// Everything past `heard` is shown as written, everything past `written` as unwritten. Offsets in UTF-16 units.
export function shade(element, heard, written) {
  const state = `${heard} ${written}`;
  if (!supported || state === shown) return;
  shown = state;
  const length = element.textContent.length;
  CSS.highlights.set('written', new Highlight(range(element, heard, Math.max(heard, written))));
  CSS.highlights.set('unwritten', new Highlight(range(element, Math.max(heard, written), length)));
}

export function unshade() {
  if (shown === '') return;
  shown = '';
  CSS.highlights.clear();
}

function range(element, start, end) {
  const made = new Range();
  made.setStart(...place(element, start));
  made.setEnd(...place(element, end));
  return made;
}

function place(element, offset) {
  const nodes = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let node = nodes.nextNode();
  if (node === null) return [element, 0];
  let rest = offset;
  for (;;) {
    if (rest <= node.length) return [node, rest];
    const next = nodes.nextNode();
    if (next === null) return [node, node.length];
    rest -= node.length;
    node = next;
  }
}
