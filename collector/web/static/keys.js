// A key that a button or link shows presses it: data-key="g" on the element, <kbd>G</kbd> in it.
// The key of a field goes into it, and Escape or, in a text, Enter leads out. Keys do nothing else while somebody types,
// and none with a modifier, which are the browser's.
"use strict";
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, [contenteditable]");
  if (typing && event.key === "Escape") typing.blur();
  if (event.key === "Enter" && event.target.matches("[data-draft]")) {
    event.preventDefault();
    typing.blur();
  }
  if (event.defaultPrevented || typing || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
  const wanted = CSS.escape(event.key.toLowerCase());
  const target = document.querySelector(`[data-key="${wanted}"]`);
  if (!target) return;
  event.preventDefault();
  if (target.matches("input")) target.focus();
  else target.click();
});

// A button with data-copy-text copies that text; without a script it is not there.
for (const each of document.querySelectorAll("[data-copy-text]")) each.hidden = !navigator.clipboard;
addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy-text]");
  if (button) await navigator.clipboard.writeText(button.dataset.copyText);
  if (button) button.textContent = "Copied";
  const element = event.target.closest("[data-tells]");
  if (element) document.getElementById("copied").textContent = element.dataset.tells;
});
// A text with data-draft stays for this tab under that name: before what is stored until its form
// is sent, and from then on where nothing is stored, as after a label that was taken back.
for (const field of document.querySelectorAll("[data-draft]")) {
  const draft = `draft ${field.dataset.draft}`;
  const sent = `sent ${field.dataset.draft}`;
  field.value = sessionStorage.getItem(draft) ?? (field.value || (sessionStorage.getItem(sent) ?? ""));
  field.addEventListener("input", () => sessionStorage.setItem(draft, field.value));
  field.form.addEventListener("submit", () => {
    sessionStorage.setItem(sent, field.value);
    sessionStorage.removeItem(draft);
  });
}

// A link with data-copy copies what it leads to; where that cannot be, it stays a download.
addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-copy]");
  if (!link || !navigator.clipboard) return;
  event.preventDefault();
  const status = document.getElementById("copied");
  try {
    const answer = await fetch(link.href);
    if (!answer.ok) throw new Error(answer.statusText);
    await navigator.clipboard.writeText(await answer.text());
    status.textContent = "Copied.";
  } catch {
    location.assign(link.href);
  }
});
