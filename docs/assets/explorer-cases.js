// The cases of an explorer that are worth a look, by kind: what to set, and why it is one (see explorers.js). A case may ask
// the figure's data where its cliff lies.
(() => {
  "use strict"
  const shared = (stride, more = {}) => ({ space: "shared", stride, offset: 0, size: 4, ...more })
  const global = (stride, more = {}) => ({ space: "global", stride, offset: 0, size: 4, ...more })

  const access = () => [
    { group: "Shared", name: "a row", set: shared(1), why: "Neighbouring words lie in neighbouring banks, so every bank has one word to deliver." },
    { group: "Shared", name: "a column", set: shared(32), why: "A step of 32 words comes back to the same bank. All lanes wait for one bank, and 31 banks have nothing to do." },
    { group: "Shared", name: "a padded column", set: shared(33), why: "One unused word in each row moves every lane on by a bank. The column now costs what a row costs." },
    { group: "Shared", name: "the same word", set: shared(0), why: "One bank again, but one word: it is delivered once, to all lanes. Only different words are a conflict." },
    { group: "Shared", name: "16 bytes a lane", set: shared(1, { size: 16 }), why: "More than one pass, and no conflict: so many bytes do not go through 32 banks of 4 bytes at once." },
    { group: "Global", name: "in line", set: global(1), why: "What the lanes ask for is just what the sectors hold." },
    { group: "Global", name: "one off the line", set: global(1, { offset: 1 }), why: "As many bytes are asked for, but they begin inside a sector, so they end inside one more." },
    { group: "Global", name: "a sector each", set: global(8), why: "No two lanes share a sector any more. It cannot get worse than this, whatever the step." },
    { group: "Global", name: "a padded column", set: global(33), why: "What saves the banks does nothing for sectors: they care how far apart lanes are, not where they end." },
  ]

  function tiles({ m, n, k, start }) {
    const { bm, bn, bk } = start, across = Math.ceil(n / bn), down = Math.ceil(m / bm), left = k % bk || bk
    const narrow = [bm * 4, bn / 4].every(side => side >= 8 && side <= 256) && bm * 4 + bn / 4 > bm + bn
    return [
      { name: `${bm} × ${bn}`, set: { bm, bn, bk, program: 0, step: 1 }, why: "The tile of this page. Keep it in mind, and watch the bytes." },
      { name: "a small tile", set: { bm: 8, bn: 8, bk, program: 0, step: 1 }, why: "Many programs, and each loads its own strip of A and of B. Hardly anything is used twice." },
      narrow && { name: "long and narrow", set: { bm: bm * 4, bn: bn / 4, bk, program: 0, step: 1 }, why: `It owns as many elements of C as ${bm} × ${bn}, but its sides are longer together, and the sides are what is loaded.` },
      Math.max(m, n) <= 256 && { name: "one tile for all", set: { bm: 256, bn: 256, bk, program: 0, step: 1 }, why: "Nothing is loaded twice. But one program works alone, and on a GPU all other multiprocessors wait." },
      { name: "the last corner", set: { bm, bn, bk, program: across * down - 1, step: Math.ceil(k / bk) }, why: left < bk ? `A whole step for what is left of K: ${left} of ${bk} columns. The masks leave the rest alone.` : "The last program, in its last step." },
    ].filter(Boolean)
  }

  function merge({ values, start }) {
    const { chunk } = start, largest = values.indexOf(Math.max(...values)), step = Math.floor(largest / chunk) + 1
    const all = Math.ceil(values.length / chunk)
    return [
      { name: "the first chunk", set: { chunk, step: 1 }, why: "What will the sum be multiplied by when a larger score comes? Guess, then step on." },
      step > 1 && { name: "the largest arrives", set: { chunk, step }, why: "All that was summed before was summed for a smaller maximum. One factor corrects it at once; no score is read again." },
      step < all && { name: "after it", set: { chunk, step: step + 1 }, why: "No larger score comes. The old sum stays, and it is the new one that is made smaller." },
      { name: "one by one", set: { chunk: 1, step: values.length }, why: "The most corrections that there can be. The sum in the end is the same." },
      { name: "all at once", set: { chunk: values.length, step: 1 }, why: "One chunk, and nothing is ever corrected. But the whole row had to be there." },
    ].filter(Boolean)
  }

  function roofline({ roofs, memory }) {
    const { peak, item } = roofs[0], under = m => 2e3 * m * 4096 ** 2 / (item * (2 * m * 4096 + 4096 ** 2)) * memory < 1e6 * peak
    const last = [...Array(15).keys()].map(power => 2 ** power).filter(under).pop()
    const weights = (m, name, why) => ({ name, set: { m, n: 4096, k: 4096, roof: 0 }, why })
    return [
      { name: "a cube", set: { m: 4096, n: 4096, k: 4096, roof: 0 }, why: "Every element is loaded once and used 4,096 times. The memory has time to spare." },
      { name: "a flat one", set: { m: 4096, n: 4096, k: 64, roof: 0 }, why: "K is small, so there is little to compute, but C is as large as before and must be written." },
      weights(1, "a single row", "A language model that answers one reader: every weight is loaded for one multiplication. The units wait nearly all the time."),
      weights(32, "32 rows", "Now 32 readers are answered with the weights loaded once. Against a single row it costs next to nothing."),
      last && weights(last, "just under the ridge", "With twice as many rows, computing is the limit: from there on, each row costs its time."),
    ].filter(Boolean)
  }

  window.klCases = { access, tiles, merge, roofline }
})()
