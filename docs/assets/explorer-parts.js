// What the kinds of explorers share: words and numbers as tables have them, and parts of pictures. Each kind is a file of its own
// (explorer-access.js and others) and adds itself to klKinds; explorers.js makes the figures.
(() => {
  "use strict"
  const count = (n, word, many = `${word}s`) => `${n.toLocaleString("en")} ${n === 1 ? word : many}`
  // As number of kernels/figures/html.py writes it, in the table that stands below.
  function short(n) {
    if (Number.isInteger(n) && n < 1e15) return n.toLocaleString("en")
    if (n < 1e-4 || n >= 1e9) return n.toExponential(2).replace(/e([-+])(\d)$/, "e$10$2")
    const places = Math.max(0, 2 - Math.floor(Math.log10(n))), half = n.toFixed(places + 1), up = n.toFixed(places)
    const even = half.endsWith("5") && Number.isInteger(n * 2 ** (places + 1)) && up.slice(-1) % 2 // of two as near, the even one
    const words = even ? half.slice(0, -1) : up
    return places ? words : Number(words).toLocaleString("en")
  }
  const range = (n, f) => Array.from({ length: n }, (_, i) => f(i))
  const up = (a, b) => Math.ceil(a / b)
  const text = (x, y, words, name = "") => `<text class="kl-t ${name}" x="${x}" y="${y}">${words}</text>`
  const rect = (x, y, w, h, name) => `<path class="${name}" d="M${x} ${y}h${w}v${h}h${-w}z"/>`
  // What lies past an edge, hatched; each picture needs the pattern once.
  const hatching = id => `<defs><pattern id="${id}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
    '<rect class="kl-hatch-back" width="6" height="6"/><rect class="kl-hatch-line" width="2" height="6"/></pattern></defs>'
  const hatched = (id, x, y, w, h) => `<path class="kl-masked" fill="url(#${id})" d="M${x} ${y}h${w}v${h}h${-w}z"/>`
  const owner = i => `kl-own kl-c${i % 8}`
  // "column 64" or "columns 0–31"
  const run = (word, first, last) => first === last ? `${word} ${first}` : `${word}s ${first}–${last}`
  // A line of words, or several where the picture is narrow.
  function lines(x, y, width, words, name) {
    const body = [""]
    for (const word of words.split(" ")) {
      const longer = `${body[body.length - 1]} ${word}`.trim()
      if (6 * longer.length > width && body[body.length - 1]) body.push(word)
      else body[body.length - 1] = longer
    }
    return { body: body.map((line, i) => text(x, y + 15 * i, line, name)), height: 15 * (body.length - 1) }
  }
  // What the colours mean: [class, or #pattern, and words] side by side, below each other where the picture is narrow.
  function legend(x, y, width, entries) {
    const body = []
    let right = x, line = y
    for (const [name, words] of entries) {
      const wide = 30 + 6.4 * words.length
      if (right > x && right + wide > width) [right, line] = [x, line + 18]
      body.push(name[0] === "#" ? hatched(name.slice(1), right, line, 11, 11) : rect(right, line, 11, 11, name), text(right + 17, line + 10, words, "kl-t--soft"))
      right += wide
    }
    return { body, height: line - y + 18 }
  }

  window.klParts = { count, short, range, up, text, rect, hatching, hatched, owner, run, lines, legend }
  window.klKinds = {}
})()
