// --- words of a typed text, as rows of texts have them -----------------------------------------

const { reader } = data;

const stopWords = new Set(reader.stop_words);

/** A letter with its marks, and runs of letters: group 1 is of a script without spaces. */
const MARKS = "[\\p{M}\\u200c\\u200d]";
const LETTER = reader.unit === "identifiers" ? "\\p{L}" : "[\\p{L}\\p{N}_]";
const SPACELESS = reader.spaceless ? `(?=[${reader.spaceless}])` : "(?!)";
const WITH_SPACES = reader.spaceless ? `(?![${reader.spaceless}])` : "";
const RUNS = new RegExp(
  `((?:${SPACELESS}[\\p{L}\\p{N}_]${MARKS}*)+)` +
  `|${WITH_SPACES}${LETTER}(?:${WITH_SPACES}(?:${LETTER}|${MARKS}))*`, "gu");
const LETTERS = new RegExp(`[\\p{L}\\p{N}_]${MARKS}*`, "gu");

/** Where camelCase and snake_case words begin. */
const WORD_BREAK = /(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_/g;

/** What each run of letters gives: itself where it is one word. */
function piecesOf(text) {
  let normalized = text.normalize("NFKC");
  if (reader.unit === "identifiers") normalized = normalized.replace(WORD_BREAK, " ");
  const runs = [...normalized.toLowerCase().matchAll(RUNS)];
  return runs.filter(([run]) => !stopWords.has(run)).map(([run, spaceless]) => {
    if (spaceless !== undefined) return lettersAndPairs(run);
    return reader.unit === "characters" ? characterGrams(run) : [run];
  });
}

/** The letters of a run, and all pairs of neighbours. */
function lettersAndPairs(run) {
  const letters = run.match(LETTERS);
  return letters.flatMap((letter, n) => n ? [letters[n - 1] + letter, letter] : [letter]);
}

/** The n-grams of characters of a word, which has a space at both ends. */
function characterGrams(word) {
  const padded = [" ", ...word, " "];
  const grams = [];
  for (let length = reader.gram_lengths[0]; length <= reader.gram_lengths[1]; length++) {
    for (let start = 0; start + length <= padded.length; start++) {
      grams.push(padded.slice(start, start + length).join(""));
    }
  }
  return grams;
}
