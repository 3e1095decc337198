// A key that a button or link shows presses it: data-key="g" on the element, <kbd>G</kbd> in it.
// Keys do nothing while somebody types, and none with a modifier, which are the browser's.
"use strict";
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, [contenteditable]");
  if (typing || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
  const wanted = CSS.escape(event.key.toLowerCase());
  const target = document.querySelector(`[data-key="${wanted}"]`);
  if (!target) return;
  event.preventDefault();
  target.click();
});
