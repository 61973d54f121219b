"use strict";
// Answers to pairs: y and n answer the chosen pair, arrows choose another, and a button
// saves all answers as a file that `hdsl link --matches` reads.
(() => {
  const pairs = [...document.querySelectorAll("article.pair")];
  const save = document.querySelector("#save");
  const count = document.querySelector("#count");
  let chosen = 0;
  let isSaved = true;

  function choose(number) {
    chosen = Math.max(0, Math.min(number, pairs.length - 1));
    for (const [k, pair] of pairs.entries()) {
      pair.classList.toggle("chosen", k === chosen);
    }
    pairs[chosen].scrollIntoView({ block: "nearest" });
  }

  function answer(pair, word) {
    pair.dataset.match = pair.dataset.match === word ? "" : word;
    isSaved = false;
    const n = pairs.filter((each) => each.dataset.match).length;
    count.textContent = `${n} of ${pairs.length} answered`;
    save.disabled = n === 0;
  }

  /** A cell; what a spreadsheet would run as a formula has an apostrophe before. */
  function cell(value) {
    const isFormula = /^'*[=+\-@\t\r]/.test(value) && Number.isNaN(Number(value));
    const text = isFormula ? `'${value}` : value;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }

  function table() {
    const lines = ["match,left,right"];
    for (const { dataset } of pairs) {
      if (dataset.match) {
        lines.push([dataset.match, dataset.left, dataset.right].map(cell).join(","));
      }
    }
    return lines.join("\r\n") + "\r\n";
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !pairs.length) return;
    const words = { y: "yes", n: "no" };
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in words) {
      answer(pairs[chosen], words[event.key]);
      choose(chosen + 1);
    } else if (event.key in steps) {
      choose(chosen + steps[event.key]);
      event.preventDefault();
    }
  });

  for (const [k, pair] of pairs.entries()) {
    pair.addEventListener("click", (event) => {
      choose(k);
      if (event.target.value) answer(pair, event.target.value);
    });
  }

  save.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([table()], { type: "text/csv" }));
    link.download = "answers.csv";
    link.click();
    isSaved = true;
  });

  window.addEventListener("beforeunload", (event) => {
    if (!isSaved) event.preventDefault();
  });

  if (pairs.length) choose(0);
})();
