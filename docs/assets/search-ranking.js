// Stands before the theme's search in the same worker (see docs/.theme/search.py). The theme looks for words; names of code are more
// than words: `kernel-bench`, `tl.load`, `--timing`, `#include`. What was typed is also looked for as it stands, and a section that
// has it, best in its title, comes before one that has its pieces.
(function () {
  "use strict"
  var sections = [], asked = "", tell = self.postMessage.bind(self)
  var MOST = 200 // signs of a question that are looked for: whoever pastes a page does not wait for each of its words
  var LINES = 5 // of code that an answer shows
  var TITLE = 1e6, IN_TITLE = 2e5, CODE = 5e4, PHRASE = 800

  function plain(html) {
    return html.replace(/<\/?(p|li|ul|ol|pre)>/g, " ").replace(/(\w)<code>(?=-)|<\/code>(?=\p{Lu})/gu, "$1 ").replace(/<[^>]*>/g, "")
      .replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&#39;/g, "'").replace(/&amp;/g, "&")
      .replace(/\s+/g, " ").trim()
  }
  function escaped(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;")
  }
  // A name of code: it has something else than letters and figures in it, or a capital after a small letter.
  function isCode(piece) {
    return piece.length > 1 && /[^\p{L}\p{N}\s"']|\p{Ll}\p{Lu}/u.test(piece.replace(/[.,:;!?]+$/, ""))
  }
  // Names are written with hyphens, underscores and blanks in turn: row-sum, row_sum, "Lab 2: row sum".
  function loose(text) { return text.replace(/[-_\s]+/g, " ").trim() }

  // How often `text` has `phrase`: whole, else as the beginning or a part of a longer name.
  function count(text, phrase) {
    var whole = 0, part = 0, word = /[\p{L}\p{N}]/u
    for (var at = text.indexOf(phrase); at >= 0; at = text.indexOf(phrase, at + phrase.length)) {
      var before = text[at - 1] || " ", after = text[at + phrase.length] || " "
      var open = !word.test(phrase[0]) || !word.test(before)
      var closed = !word.test(phrase[phrase.length - 1]) || !(word.test(after) || after === "_")
      if (open && closed && !(phrase[0] === "-" && before === "-")) whole++
      else part++
    }
    return { whole: whole, part: part }
  }

  // `unit`: what it is worth that the text has the phrase once; 0 leaves that to the theme's search.
  function worth(section, phrase, unit) {
    if (section.title === phrase) return TITLE
    var dense = /^[\p{L}\p{N}][\p{L}\p{N}\s_-]+$/u.test(phrase) ? loose(phrase) : "", code = unit === CODE
    if (dense && section.loose === dense) return TITLE / 2
    var title = count(section.title, phrase), also = dense && count(section.loose, dense).whole, score = 0
    if (title.whole) score = IN_TITLE - 100 * section.title.length
    else if (also || title.part && code) score = 2 * unit
    if (unit) {
      var text = count(section.text, phrase)
      if (text.whole) score += unit * (1 + Math.log2(text.whole) / 8)
      else if (text.part && code && phrase.length > 2) score += unit / 4
      if (text.whole && code && section.defines(phrase)) score += 2 * unit
    }
    return score * (section.boost || 1)
  }

  function excerpt(section, phrase) {
    var at = section.text.indexOf(phrase)
    if (at < 0) return escaped(section.raw.slice(0, 160))
    var from = Math.max(0, at - 80), to = at + phrase.length
    return (from ? "… " : "") + escaped(section.raw.slice(from, at)) + "<mark>" + escaped(section.raw.slice(at, to)) + "</mark>" +
      escaped(section.raw.slice(to, to + 120)) + (to + 120 < section.raw.length ? " …" : "")
  }

  // What the theme marks on the page that opens.
  function marked(phrase) {
    return Object.fromEntries(phrase.split(" ").map(function (word) { return [word, true] }))
  }

  // The theme's answer, a list of pages with their sections each, with what was found as it stands.
  function ranked(groups, query) {
    var phrase = query.toLowerCase().replace(/["]/g, "").replace(/\s+/g, " ").trim()
    var several = phrase.indexOf(" ") > 0
    var pieces = Array.from(new Set(query.split(/\s+/).filter(isCode).map(function (each) { return each.toLowerCase() })))
    var unit = pieces.length ? CODE : several ? PHRASE : 0
    if (phrase.length < 2) return groups
    var found = new Map()
    groups.forEach(function (group) { group.forEach(function (item) { found.set(item.location, item) }) })
    sections.forEach(function (section) {
      var more = worth(section, phrase, unit)
      if (several) pieces.forEach(function (piece) { more += worth(section, piece, CODE) / 4 })
      if (!more) return
      var item = found.get(section.location)
      if (item) item.score += more
      else {
        item = Object.assign({}, section.doc, { score: more, terms: marked(phrase), text: excerpt(section, several && pieces[0] || phrase) })
        found.set(section.location, item)
      }
    })
    var pages = new Map()
    found.forEach(function (item) {
      var page = item.location.split("#")[0]
      if (!pages.has(page)) pages.set(page, [])
      pages.get(page).push(item)
    })
    var all = []
    pages.forEach(function (items, page) {
      var first = sections.find(function (each) { return each.location === page })
      if (first && !items.some(function (item) { return item.location === page })) {
        items.push(Object.assign({}, first.doc, { score: 0, terms: marked(phrase) }))
      }
      items.sort(function (a, b) { return b.score - a.score })
      all.push(items)
    })
    return all.sort(function (a, b) { return b[0].score - a[0].score })
  }

  // Of long code the lines around what was found, or the first ones: a whole listing would leave no room for another answer.
  function aroundHit(code) {
    var lines = code.split("\n"), hit = lines.findIndex(function (line) { return line.indexOf("<mark") >= 0 })
    if (lines.length <= LINES + 2) return code
    var from = Math.max(0, Math.min(hit - 2, lines.length - LINES)), to = from + LINES
    return (from ? "…\n" : "") + lines.slice(from, to).join("\n") + (to < lines.length ? "\n…" : "")
  }
  function shortened(item) {
    if (item.text) item.text = item.text.replace(/(<pre>(?:<code>)?)([^]*?)(?=(?:<\/code>)?<\/pre>)/g, function (all, opening, code) {
      return opening + aroundHit(code)
    })
  }

  self.postMessage = function (message) {
    if (message && message.type === 3 && message.data && message.data.items) {
      message.data.items = ranked(message.data.items, asked)
      message.data.items.forEach(function (group) { group.forEach(shortened) })
    }
    tell(message)
  }

  // lunr joins nodes of its tree of words that have one name. Its own names are letters and numbers without a sign between them, so
  // with words such as b32 two different nodes can have one, and what begins with such a letter is not found, with an error.
  function nameOfNode() {
    if (this._str) return this._str
    var node = this
    return (this.final ? "1" : "0") + Object.keys(node.edges).sort().map(function (label) { return label + node.edges[label].id + ";" }).join("")
  }

  // Heard before the theme hears it: signs that mean something to its search, and nothing to a reader, become blanks.
  self.addEventListener("message", function (event) {
    var message = event.data
    if (message && message.type === 0) {
      self.lunr.TokenSet.prototype.toString = nameOfNode
      var parents = new Map()
      sections = message.data.docs.map(function (doc) {
        var raw = plain(doc.text), page = doc.location.split("#")[0]
        var copy = { location: doc.location, title: doc.title, text: doc.text }
        if (parents.has(page)) copy.parent = parents.get(page)
        else parents.set(page, copy)
        var title = plain(doc.title).toLowerCase(), text = raw.toLowerCase()
        return {
          location: doc.location, title: title, loose: loose(title), text: text, raw: raw, boost: doc.boost, doc: copy,
          defines: function (name) {
            if (/^--[\w-]+$/.test(name)) return new RegExp(name + "(, \\S+)?( <[^>]*>| (?=[A-Z]))").test(raw)
            return /^\w+$/.test(name) && new RegExp("(def|class|void|float|int) " + name + "\\b").test(text)
          },
        }
      })
    } else if (message && message.type === 2) {
      asked = message.data.slice(0, MOST)
      message.data = asked.replace(/[^\p{L}\p{N}\p{M}_."\s]+/gu, " ").replace(/(^|\s)\.+|\.+(?=\s|$)/g, " ").trim()
    }
  })
})()
