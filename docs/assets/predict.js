// A place to write a prediction before the page shows what is true. Every question under a heading "Predict" that is
// folded (`??? question "…"`, that one line) gets a field of its own, and so does every item of a list below them that leads
// to another section; a heading "Predict" without one gets a field for the whole
// section. What is written stays in this browser. Opening the question shows the prediction beside what was computed; where the
// answer only leads to another section of the page, the prediction waits there, below its heading.
(() => {
  "use strict"
  const element = window.klElement
  let memory = {} // where the browser keeps nothing, it lasts as long as the page

  function kept(key, value) {
    try {
      if (value === undefined) return localStorage.getItem(key) || ""
      value ? localStorage.setItem(key, value) : localStorage.removeItem(key)
      return !localStorage.forgets // see early.js
    } catch {
      if (value === undefined) return memory[key] || ""
      memory[key] = value
      return false
    }
  }

  // Grouped by threes (1,024 and 1 024), with a decimal comma, or as programs write it.
  const NUMBER = String.raw`[-+−]?(?:\d{1,3}(?:[,'’_\s]\d{3})+(?!\d|,\d)(?:\.\d+)?|\d+,\d+(?!\d|,\d)|\d+(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?`
  const SIGN = String.raw`\s*(\^|\*\*|[×x*·/])\s*(?=[-+−.]?\d)`
  const MANY = { k: 1e3, thousand: 1e3, m: 1e6, million: 1e6, billion: 1e9 }

  // The first number in some words, "about 1,024", and its unit where it is one of those that come in sizes; a power, a
  // product or a quotient of two, "2^10", is a number as well. Of more than two none is made.
  function read(words) {
    const plain = text => Number((/^[-+−]?\d+,\d+$/.test(text) && !/^[-+−]?\d{1,3},\d{3}$/.test(text) ? text.replace(",", ".") : text)
      .replace(/[,'’_\s]/g, "").replace("−", "-"))
    const found = new RegExp(`(${NUMBER})(?:${SIGN}(${NUMBER}))?`, "i").exec(words)
    if (!found) return { value: NaN }
    const [whole, first, sign, second] = found, rest = words.slice(found.index + whole.length)
    if (new RegExp(`^(?:${SIGN}|[⁰¹²³⁴-⁹½])`).test(rest)) return { value: NaN }
    const [a, b] = [plain(first), second ? plain(second) : 1]
    const value = !sign ? a : sign === "/" ? a / b : sign === "^" || sign === "**" ? a ** b : a * b
    const many = /^\s*(k|K|M|thousand|million|billion)(?![\p{L}\d])/u.exec(rest)
    const unit = /^\s*(ns|[uµμ]s|ms|s|[kmgt]i?b(?:\/s)?|[kmgt]?flop\/s|%)(?![\p{L}\d])/iu.exec(rest)
    return { value: value * (many ? MANY[many[1].toLowerCase()] : 1), unit: unit && unit[1].toLowerCase().replace(/^[uμ]/, "µ") }
  }
  const numberOf = words => read(words).value

  // A prediction beside what is true, in words.
  function compared(mine, truth) {
    const [one, other] = [read(mine), read(truth)], [a, b] = [one.value, other.value]
    if (Number.isNaN(a) || Number.isNaN(b) || one.unit && other.unit && one.unit !== other.unit) return ""
    if (a === b) return "Exactly."
    if (a === 0 || b === 0 || a < 0 !== b < 0) return `Off by ${(a - b).toLocaleString("en", { maximumSignificantDigits: 3 })}.`
    const times = Math.max(a / b, b / a)
    if (times < 1.1) return `Within ${Math.ceil(100 * (times - 1) - 1e-9)}%.`
    return `${times.toLocaleString("en", { maximumSignificantDigits: 2 })} times too ${Math.abs(a) > Math.abs(b) ? "much" : "little"}.`
  }

  // The page without its version, `labs/3-softmax/`, from a server and from disk (`labs/3-softmax.html`) alike.
  const page = location.pathname.replace(/index\.html$/, "").replace(/\.html$/, "/").split("/").slice(-3).join("/")
  const place = id => `kl-predict:${page}#${id}`

  // A field for the prediction; `asked` is the question, which stands above it and is in its name for those who hear it.
  function field(id, rows, asked = "") {
    const key = place(id), box = element("textarea", { id: `kl-predict-${id}`, rows, value: kept(key), autocomplete: "off", spellcheck: false })
    const note = element("p", { className: "kl-predict__note", role: "status" })
    box.addEventListener("input", () => {
      const stays = kept(key, box.value.trim())
      note.textContent = !box.value.trim() ? "" : stays ? "Kept in this browser." : "This browser keeps nothing, so it lasts until you leave the page."
    })
    window.addEventListener("storage", event => { // written in another tab
      if (event.key !== key || box === document.activeElement && document.hasFocus()) return
      box.value = event.newValue || ""
      box.dispatchEvent(new CustomEvent("kl-written"))
    })
    const label = element("label", { htmlFor: box.id }, "Your prediction")
    if (asked) label.append(element("span", { className: "kl-visually-hidden" }, `: ${asked}`))
    return { box, note, whole: element("div", { className: "kl-predict" }, label, box, note) }
  }

  // What stands further down the page may still have to come.
  const whenRead = show => document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", show) : show()

  function question(details, id) {
    const asked = details.querySelector("summary").textContent.trim(), made = field(id, 1, asked)
    details.after(made.whole)
    details.classList.add("kl-predicted")
    const shown = element("p", { className: "kl-predict__shown" }), predicted = element("strong", {}, "You predicted ")
    const value = details.querySelector(".kl-value"), link = !value && details.querySelector("a[href^='#']")
    const show = () => {
      const mine = made.box.value.trim(), there = link && document.getElementById(decodeURIComponent(link.hash.slice(1)))
      if (!mine || !details.open && !there) return shown.remove()
      if (there) shown.replaceChildren(predicted, mine, element("br"), element("span", { className: "kl-predict__asked" }, asked))
      else shown.replaceChildren(predicted, mine, value ? `; it is ${value.textContent}. ${compared(mine, value.textContent)}` : ".")
      if (!shown.isConnected) (there || details.querySelector("summary")).after(shown)
    }
    details.addEventListener("toggle", show)
    for (const name of ["input", "kl-written"]) made.box.addEventListener(name, show)
    whenRead(show)
  }

  // A question of a list: its field stands in the item, and the prediction waits below the heading that the item leads to.
  function listed(item, id) {
    const asked = item.textContent.replace(/\s*\([^()]*\)\s*$/, "").replace(/\s+/g, " ").trim(), made = field(id, 1, asked)
    const link = item.querySelector("a[href^='#']"), shown = element("p", { className: "kl-predict__shown" })
    item.append(made.whole)
    const show = () => {
      const mine = made.box.value.trim(), there = document.getElementById(decodeURIComponent(link.hash.slice(1)))
      if (!mine || !there) return shown.remove()
      shown.replaceChildren(element("strong", {}, "You predicted "), mine, element("br"), element("span", { className: "kl-predict__asked" }, asked))
      if (!shown.isConnected) there.after(shown)
    }
    for (const name of ["input", "kl-written"]) made.box.addEventListener(name, show)
    whenRead(show)
  }

  const level = heading => +heading.tagName[1]
  const ends = (at, heading) => /^H[1-6]$/.test(at.tagName) && level(at) <= level(heading)
  // What stands between a heading and the next one of its level or a higher one.
  function section(heading) {
    const found = []
    for (let at = heading.nextElementSibling; at && !ends(at, heading); at = at.nextElementSibling) found.push(at)
    return found
  }

  function make(heading) {
    heading.dataset.predict = ""
    const inside = section(heading), questions = inside.filter(each => each.matches("details.question"))
    questions.forEach((each, i) => question(each, `${heading.id}-${i + 1}`))
    const below = questions.length ? inside.slice(inside.indexOf(questions.at(-1)) + 1) : []
    const items = below.filter(each => each.matches("ol, ul")).flatMap(each => [...each.children])
    items.filter(each => each.querySelector("a[href^='#']")).forEach((each, i) => listed(each, `${heading.id}-${questions.length + i + 1}`))
    if (questions.length || !inside.length) return
    const made = field(heading.id, 3), last = inside.find(each => each.matches(".kl-block, figure, details"))
    last ? last.before(made.whole) : inside[inside.length - 1].after(made.whole)
    const shown = element("p", { className: "kl-predict__shown" })
    const show = () => {
      const mine = made.box.value.trim()
      const next = mine && [...document.querySelectorAll("article .kl-block")].find(each => made.whole.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING)
      shown.replaceChildren(element("strong", { textContent: "You predicted " }), mine)
      next ? next.after(shown) : shown.remove()
    }
    for (const name of ["input", "kl-written"]) made.box.addEventListener(name, show)
    whenRead(show)
  }

  window.klPredict = { compared, numberOf } // for tests
  const HEADINGS = "article :is(h2, h3)[id^=predict]:not([data-predict])"
  // What is asked under a heading is complete where the next heading, or the end of the page, has been read.
  const complete = heading => {
    let at = heading.nextElementSibling
    while (at && !ends(at, heading)) at = at.nextElementSibling
    return at !== null || document.readyState !== "loading"
  }
  klEach(HEADINGS, make, complete) // see early.js
})()
