// What check_pages.py asks a page. It is evaluated in the page, after axe, and leaves its answers as plain values.
({
  // How many pixels the page is too wide, or its text is though the window hides it, and what reaches out. What scrolls
  // within a frame of its own does not count.
  tooWide() {
    const article = document.querySelector("article") || document.body
    const framed = e => {
      for (let at = e.parentElement; at && article.contains(at); at = at.parentElement)
        if (getComputedStyle(at).overflowX !== "visible") return true
      return false
    }
    const right = e => e.getBoundingClientRect().right - innerWidth
    const outside = [...article.querySelectorAll("*")].filter(e => right(e) > 1 && e.checkVisibility() && !framed(e))
    const over = Math.ceil(Math.max(document.documentElement.scrollWidth - innerWidth, 0, ...outside.map(right)))
    return over ? [over, outside.slice(0, 4).map(e => `${e.tagName.toLowerCase()}.${e.className}`)] : null
  },

  async axe(options) {
    const found = await axe.run(document, { resultTypes: ["violations"], ...options })
    const why = node => (node.any[0] || node.all[0] || node.none[0] || {}).message || ""
    return found.violations.map(v => [v.id, v.impact, v.nodes.slice(0, 3).map(n => `${n.html.slice(0, 140)} [${why(n)}]`)])
  },

  // Contrast takes axe a second for a thousand texts. Texts of one colour in places of one kind (the same elements and
  // classes all the way up, on the same backgrounds) have one contrast: all but the first of each kind are hidden while
  // it is judged, and kinds that were found good before, in this window or another, on this page or another, are `known`.
  async contrast(known) {
    const kinds = new Set(known), before = kinds.size, paths = new WeakMap(), changed = []
    const hash = words => {
      let [a, b] = [0xdeadbeef, 0x41c6ce57]
      for (let i = 0; i < words.length; i++) {
        a = Math.imul(a ^ words.charCodeAt(i), 2654435761)
        b = Math.imul(b ^ words.charCodeAt(i), 1597334677)
      }
      return 4294967296 * (b & 2097151) + (a >>> 0)
    }
    const ground = s => `${s.backgroundColor} ${s.backgroundImage} ${s.opacity}`
    const path = e => {
      if (!e) return ""
      if (!paths.has(e)) paths.set(e, hash(`${path(e.parentElement)}>${e.tagName}.${e.getAttribute("class")} ${ground(getComputedStyle(e))}`))
      return paths.get(e)
    }
    const all = [...document.body.querySelectorAll("*")].filter(e => e.checkVisibility({ visibilityProperty: true }))
    const again = all.map(e => {
      if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) return null
      const s = getComputedStyle(e), kind = hash(`${path(e)} ${s.color} ${s.fontSize} ${s.fontWeight}`)
      return kinds.has(kind) || !kinds.add(kind)
    })
    if (kinds.size === before) return { found: [], kinds: [] }
    all.forEach((e, i) => {
      if (again[i] === null) return
      changed.push([e, e.style.visibility])
      e.style.visibility = again[i] ? "hidden" : "visible"
    })
    try {
      const found = await this.axe({ runOnly: { type: "rule", values: ["color-contrast"] } })
      return { found, kinds: [...kinds].slice(before) }
    } finally {
      changed.forEach(([e, was]) => { e.style.visibility = was })
    }
  },

  // Where the focus is, as something that can be compared and read.
  focus() {
    const e = document.activeElement, s = getComputedStyle(e)
    // The theme's choices of scheme and tab are shown by their labels.
    const label = e.matches("form[data-md-component=palette] input") ? e.form : e.matches(".tabbed-set > input") && e.labels[0]
    const b = (label || e).getBoundingClientRect()
    window.klStops ||= [...document.querySelectorAll("*")]
    return {
      at: window.klStops.indexOf(e),
      what: `${e.tagName.toLowerCase()}.${String(e.className).slice(0, 60)}`,
      body: e === document.body,
      seen: b.width > 0 && b.height > 0 && b.right > 0 && b.left < innerWidth,
      ring: !!label || s.outlineStyle !== "none" || s.boxShadow !== "none",
    }
  },

  // The stops of the article in the order of the page: none may stand above the one before it, but in a column to its
  // right.
  order() {
    const wrong = []
    if (document.querySelector("[tabindex]:not([tabindex='0'], [tabindex=''], [tabindex^='-'])"))
      wrong.push("a tabindex above 0")
    let last = null
    const stops = "a[href], button, input, select, textarea, summary, [tabindex='0']"
    for (const e of document.querySelectorAll(`article :is(${stops})`)) {
      if (!e.checkVisibility({ visibilityProperty: true }) || e.closest("svg, table, .tabbed-labels, .tabbed-control, .headerlink")) continue
      const b = e.getBoundingClientRect()
      if (!b.width) continue
      if (last && b.bottom < last.top - 2 && b.left < last.right) wrong.push(`${e.tagName.toLowerCase()}.${e.className} stands above the stop before it`)
      last = b
    }
    return wrong.slice(0, 4)
  },

  withoutScripts() {
    const wrong = [], seen = e => e.checkVisibility({ visibilityProperty: true })
    for (const e of document.querySelectorAll("article :is(button, input:not([type=radio]), select, textarea, output)"))
      if (seen(e)) wrong.push(`a ${e.tagName.toLowerCase()}.${e.className} that does nothing`)
    for (const e of document.querySelectorAll("article .kl-fig")) {
      if (e.closest("details:not([open])")) continue
      const says = [...e.querySelectorAll("table, ol, ul, p, svg[aria-describedby], svg[aria-label]")].some(seen)
      if (!says) wrong.push(`a figure ${e.className} that shows nothing`)
    }
    return wrong.slice(0, 4)
  },
})
