// Makes a picture and controls of every stepper on the page (see kernels/figures/stepper.py). Nothing is fetched, and
// without this script the table that it hides says the same.
(() => {
  "use strict"
  const WARP = 32, SECTOR = 32, BANKS = 32, PAUSE = 1100
  const READ = 0, WRITE = 1, ATOMIC = 2, BARRIER = 3
  const VERB = ["reads", "writes", "updates"], NOUN = ["read", "write", "update"]
  const calm = matchMedia("(prefers-reduced-motion: reduce)")
  let made = 0

  // ---- words ----
  const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`
  const capital = words => words[0].toUpperCase() + words.slice(1)

  // Sorted numbers as "0–7, 9": whole when they are few runs, else the first and how many follow.
  function spans(numbers) {
    const runs = []
    for (const n of numbers) {
      const last = runs[runs.length - 1]
      if (last && n === last[1] + 1) last[1] = n
      else runs.push([n, n])
    }
    const texts = runs.slice(0, 4).map(([a, b]) => a === b ? `${a}` : `${a}–${b}`)
    return texts.join(", ") + (runs.length > 4 ? ` and ${runs.length - 4} more` : "")
  }

  // ---- buffers: an element's index, and its position when the buffer's rows are written one after the other ----
  class Buffer {
    constructor(given) {
      Object.assign(this, given)
      this.axes = this.shape.map((size, axis) => axis).sort((a, b) => this.strides[b] - this.strides[a] || a - b)
      this.count = this.shape.reduce((a, b) => a * b, 1)
      this.width = this.shape.length ? this.shape[this.shape.length - 1] : 1
      this.line = this.width === this.count // one row: it is drawn in lines of equal length
      this.height = this.line ? 1 : this.count / Math.max(1, this.width)
    }

    index(element) {
      let rest = element
      const index = this.shape.map(() => 0)
      for (const axis of this.axes) {
        if (this.shape[axis] < 2 || this.strides[axis] === 0) continue
        index[axis] = Math.floor(rest / this.strides[axis])
        if (index[axis] < 0 || index[axis] >= this.shape[axis]) return null
        rest -= index[axis] * this.strides[axis]
      }
      return rest === 0 && this.count ? index : null
    }

    position(element) {
      const index = this.index(element)
      return index ? index.reduce((at, i, axis) => at * this.shape[axis] + i, 0) : -1
    }

    text(element, alone = true) {
      const index = this.index(element)
      return `${this.name}[${index && index.length ? index.join(", ") : element}]${index || !alone ? "" : " (outside)"}`
    }

    // Elements in words: one, a run, even steps, or the first few.
    list(elements) {
      const all = [...new Set(elements)]
      const name = e => this.text(e)
      if (all.length < 3) return all.map(name).join(" and ")
      const step = all[1] - all[0]
      const even = all.every((e, i) => i === 0 || e - all[i - 1] === step)
      const steps = step === 1 ? "" : ` in steps of ${step}`
      const outside = all.every(e => !this.index(e)) // said once for all of them
      if (even) return `${this.text(all[0], !outside)}–${this.text(all[all.length - 1], !outside)}${steps}${outside ? " (outside)" : ""}`
      return `${all.slice(0, 3).map(name).join(", ")} and ${all.length - 3} more`
    }
  }

  // ---- steps ----
  function decode([line, kind, buffer, size, interval, times, on, off], threads, buffers) {
    const width = buffer < 0 ? 1 : Math.max(1, Math.ceil(size / buffers[buffer].item))
    const spread = parts => {
      const found = new Map()
      for (const [t, dt, n, e, de, repeats = 1, shiftT = 0, shiftE = 0] of parts)
        for (let r = 0; r < repeats; r++)
          for (let i = 0; i < n; i++) {
            const thread = threads ? t + i * dt + r * shiftT : 0
            if (!found.has(thread)) found.set(thread, [])
            for (let w = 0; w < width; w++) found.get(thread).push(e + i * de + r * shiftE + w)
          }
      return found
    }
    return { line, kind, buffer, size, interval, times, width, on: spread(on), off: spread(off) }
  }

  // What one request of a warp costs, in words.
  function cost(step, buffer, members) {
    if (members.some(t => step.on.get(t).length !== step.width)) return ""
    const address = t => buffer.address + step.on.get(t)[0] * buffer.item
    if (buffer.space === "shared") {
      if (members.length === 1) return "" // a lane has nobody to wait for
      const phases = new Map()
      for (const t of members) {
        const phase = Math.floor(t % WARP / (WARP / Math.max(1, step.size / 4)))
        if (!phases.has(phase)) phases.set(phase, new Map())
        for (let word = Math.floor(address(t) / 4); word * 4 < address(t) + step.size; word++) {
          const bank = (word % BANKS + BANKS) % BANKS, banks = phases.get(phase)
          if (!banks.has(bank)) banks.set(bank, new Set())
          banks.get(bank).add(step.kind === ATOMIC ? `${word} ${t}` : word) // atomics on one word take turns
        }
      }
      const worst = [...phases.values()].map(banks => Math.max(...[...banks.values()].map(words => words.size)))
      const passes = worst.reduce((a, b) => a + b, 0), degree = Math.max(...worst)
      return degree > 1
        ? `one bank must ${step.kind === ATOMIC ? `take ${degree} turns` : `deliver ${degree} different words`}, so it takes ${count(passes, "pass").replace("passs", "passes")}`
        : "no bank is asked for two different words"
    }
    return traffic(buffer, members.flatMap(t => step.on.get(t)))
  }

  // The sectors that elements of global memory lie in, and how much of them is asked for.
  function traffic(buffer, elements) {
    const asked = new Set(elements), sectors = new Set()
    for (const e of asked) {
      const first = buffer.address + e * buffer.item
      for (let b = first; b < first + buffer.item; b += Math.min(buffer.item, SECTOR)) sectors.add(Math.floor(b / SECTOR))
    }
    const used = asked.size * buffer.item, moved = sectors.size * SECTOR
    return `${count(sectors.size, "sector")} of ${SECTOR} bytes; ${Math.round(100 * used / moved)}% of the bytes moved are used`
  }

  // ---- small parts of the page ----
  function element(name, properties = {}, ...children) {
    const made = document.createElement(name)
    for (const [key, value] of Object.entries(properties))
      key in made && key !== "list" ? made[key] = value : made.setAttribute(key, value)
    made.append(...children)
    return made
  }

  // A mark inside the box at (x, y) with side c: told apart by shape, its size says whose it is.
  function mark(kind, x, y, c, size) {
    const mx = x + c / 2, my = y + c / 2, r = c * size
    if (kind === READ) return `M${mx - r} ${my}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0-${2 * r} 0z`
    if (kind === WRITE) return `M${mx - r} ${my - r}h${2 * r}v${2 * r}h-${2 * r}z`
    if (kind === ATOMIC) return `M${mx} ${my - 1.2 * r}l${1.2 * r} ${1.2 * r}l-${1.2 * r} ${1.2 * r}l-${1.2 * r}-${1.2 * r}z`
    if (kind === BARRIER) return `M${mx - r / 2} ${my - r}v${2 * r}M${mx + r / 2} ${my - r}v${2 * r}`
    return `M${mx - r} ${my}h${2 * r}m-${r / 2}-${r / 2}l${r / 2} ${r / 2}l-${r / 2} ${r / 2}`
  }
  const cross = (x, y, c) => `M${x + c * .3} ${y + c * .3}l${c * .4} ${c * .4}m0-${c * .4}l-${c * .4} ${c * .4}`
  const box = (x, y, w, h = w) => `M${x} ${y}h${w}v${h}h-${w}z`
  const notch = (x, y, c) => `M${x + c - 1} ${y + c * .66}v${c * .34 - 1}h-${c * .34 - 1}z` // a corner cut: written before
  const SHAPES = ["read", "write", "atomic", "barrier", "exchange"]

  // Collects paths by class, so that a thousand cells are a handful of elements.
  class Sheet {
    constructor() { this.paths = new Map(); this.texts = [] }
    add(name, path) { this.paths.set(name, (this.paths.get(name) || "") + path) }
    text(x, y, words, name = "") { this.texts.push(`<text class="kl-t ${name}" x="${x}" y="${y}">${words}</text>`) }
    draw(svg, width, height, label) {
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`)
      svg.setAttribute("width", width)
      svg.setAttribute("height", height)
      svg.setAttribute("aria-label", label)
      const paths = [...this.paths].map(([name, path]) => `<path class="${name}" d="${path}"/>`)
      svg.innerHTML = paths.join("") + this.texts.join("")
    }
  }

  function picture(name) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
    svg.setAttribute("class", name)
    svg.setAttribute("role", "img")
    return svg
  }

  class Stepper {
    constructor(figure) {
      const data = JSON.parse(figure.querySelector(".kl-stepper__data").dataset.steps)
      this.figure = figure
      this.threads = data.threads
      this.who = data.who
      this.kernel = data.kernel
      this.buffers = data.buffers.map(given => new Buffer(given))
      this.drawn = data.drawn
      this.blocks = data.blocks.map(block => ({
        name: block.name,
        number: block.number,
        steps: block.steps.map(step => decode(step, data.threads, this.buffers)),
      }))
      this.block = 0
      this.thread = data.start.thread
      this.step = data.start.step
      this.timer = 0
      this.source = figure.querySelector(".kl-stepper__source")
      this.build()
      figure.classList.add("kl-stepper--live")
      this.width = 0
      new ResizeObserver(() => this.fit()).observe(this.pictures)
      this.fit()
    }

    get steps() { return this.blocks[this.block].steps }
    get now() { return this.steps[this.step] }
    get warp() { return Math.floor(this.thread / WARP) }

    // ---- controls ----
    build() {
      this.say = element("p", { className: "kl-stepper__say", ariaLive: "polite", ariaAtomic: "true" })
      this.play = element("button", { type: "button", className: "kl-button", textContent: "Play" })
      const button = (words, label, step) => {
        const made = element("button", { type: "button", className: "kl-button", textContent: words })
        made.setAttribute("aria-label", label)
        made.addEventListener("click", () => { this.pause(); step() })
        return made
      }
      this.previous = button("◀ Previous", "Previous step", () => this.go({ step: this.step - 1 }))
      this.next = button("Next ▶", "Next step", () => this.go({ step: this.step + 1 }))
      this.play.addEventListener("click", () => this.toggle())
      const quiet = () => { this.play.hidden = calm.matches; if (calm.matches) this.pause() }
      calm.addEventListener("change", quiet)
      quiet()
      const shown = button("Table", "Table of all steps", () =>
        shown.setAttribute("aria-expanded", this.figure.classList.toggle("kl-stepper--table")))
      shown.setAttribute("aria-expanded", false)
      this.sliders = {}
      const rows = []
      if (this.blocks.length > 1) rows.push(this.slider(this.who, this.blocks.length, block => this.go({ block })))
      rows.push(this.slider("step", this.steps.length, step => this.go({ step })))
      if (this.threads) {
        rows.push(this.slider("thread", this.threads, thread => this.go({ thread })))
        if (this.threads > WARP)
          rows.push(this.slider("warp", Math.ceil(this.threads / WARP), warp =>
            this.go({ thread: Math.min(this.threads - 1, warp * WARP + this.thread % WARP) })))
      }
      this.track = picture("kl-stepper__track")
      this.track.setAttribute("aria-hidden", "true")
      this.track.addEventListener("click", event => {
        const at = (event.clientX - this.track.getBoundingClientRect().left) / this.track.clientWidth
        this.pause()
        this.go({ step: Math.floor(at * this.steps.length) })
      })
      this.lanes = picture("kl-stepper__lanes")
      this.lanes.addEventListener("click", event => {
        const at = event.clientX - this.lanes.getBoundingClientRect().left
        this.go({ thread: this.warp * WARP + Math.floor((at - 2) / this.laneWidth) })
      })
      this.laneTitle = element("p", { className: "kl-stepper__name" })
      this.views = this.buffers.slice(0, this.drawn).map((buffer, number) => {
        const svg = picture("kl-stepper__grid")
        const title = element("p", { className: "kl-stepper__name" })
        svg.addEventListener("click", event => this.pick(number, event))
        return { buffer, number, svg, title, box: element("div", { className: "kl-stepper__buffer" }, title, svg) }
      })
      this.pictures = element("div", { className: "kl-stepper__pictures", tabIndex: 0 },
        ...(this.threads ? [element("div", { className: "kl-stepper__warp" }, this.laneTitle, this.lanes)] : []), ...this.views.map(view => view.box))
      this.pictures.setAttribute("role", "group")
      this.pictures.setAttribute("aria-label",
        `Picture of ${this.kernel}. Left and right arrow: step.${this.threads ? " Up and down arrow: thread." : ""} Space: ${"play or pause"}.`)
      const controls = element("div", { className: "kl-stepper__controls" },
        element("div", { className: "kl-stepper__buttons" }, this.previous, this.play, this.next, shown),
        this.track, ...rows)
      controls.setAttribute("role", "group")
      controls.setAttribute("aria-label", `Walk through ${this.kernel}`)
      this.live = element("div", { className: "kl-stepper__live" }, controls, this.say)
      this.figure.prepend(this.live)
      ;(this.source || this.live).after(this.pictures, this.legend())
      this.live.addEventListener("keydown", event => this.key(event))
      this.pictures.addEventListener("keydown", event => this.key(event))
    }

    slider(name, size, change) {
      const id = `kl-stepper-${++made}`
      const input = element("input", { type: "range", id, min: 0, max: size - 1, step: 1 })
      const output = element("output", { htmlFor: id })
      output.setAttribute("aria-hidden", "true")
      input.addEventListener("input", () => { this.pause(); change(input.valueAsNumber) })
      this.sliders[name] = { input, output }
      const label = element("label", { htmlFor: id, textContent: capital(name) })
      return element("div", { className: "kl-stepper__slider" }, label, input, output)
    }

    key(event) {
      const slider = event.target.type === "range", picture = event.target === this.pictures
      if (!slider && !picture || event.altKey || event.ctrlKey || event.metaKey) return
      const moves = {
        ArrowRight: { step: this.step + 1 }, ArrowLeft: { step: this.step - 1 },
        ArrowDown: { thread: this.thread + 1 }, ArrowUp: { thread: this.thread - 1 },
        Home: { step: 0 }, End: { step: this.steps.length - 1 },
      }
      if (event.key === " ") calm.matches ? this.go({ step: this.step + 1 }) : this.toggle()
      else if (picture && moves[event.key]) { this.pause(); this.go(moves[event.key]) }
      else return
      event.preventDefault()
    }

    toggle() {
      if (this.timer) return this.pause()
      if (this.step === this.steps.length - 1) this.go({ step: 0 })
      this.say.setAttribute("aria-live", "off") // a sentence a second would drown the reader
      this.play.textContent = "Pause"
      this.timer = setInterval(() => {
        if (!this.figure.isConnected || this.step >= this.steps.length - 1) return this.pause()
        this.go({ step: this.step + 1 })
      }, PAUSE)
    }

    pause() {
      clearInterval(this.timer)
      this.timer = 0
      this.play.textContent = "Play"
      this.say.setAttribute("aria-live", "polite")
    }

    go({ block = this.block, step = this.step, thread = this.thread }) {
      const within = (value, size) => Math.max(0, Math.min(size - 1, value))
      this.block = within(block, this.blocks.length)
      this.step = within(step, this.steps.length)
      this.thread = within(thread, Math.max(1, this.threads))
      this.draw()
    }

    pick(number, event) {
      const view = this.views[number], step = this.now, at = view.svg.getBoundingClientRect()
      const wanted = view.at(event.clientX - at.left, event.clientY - at.top)
      if (!this.threads || step.buffer !== number || wanted < 0) return
      for (const [thread, elements] of step.on)
        if (elements.some(e => view.buffer.position(e) === wanted)) return this.go({ thread })
    }

    // ---- words ----
    person(thread = this.thread) {
      if (!this.threads) return this.blocks[this.block].name
      const block = this.blocks.length > 1 ? ` of ${this.blocks[this.block].name}` : ""
      return `thread ${thread}${block} (warp ${Math.floor(thread / WARP)}, lane ${thread % WARP})`
    }

    members(map) {
      return [...map.keys()].filter(t => !this.threads || Math.floor(t / WARP) === this.warp)
    }

    sentence() {
      const step = this.now, mine = step.on.get(this.thread), off = step.off.get(this.thread)
      const met = step.interval ? `, after barrier ${step.interval}` : this.steps.some(s => s.kind === BARRIER) ? ", before barrier 1" : ""
      const head = `Step ${this.step + 1} of ${this.steps.length}, line ${step.line}${step.kind === BARRIER ? "" : met}. `
      const me = this.person(), whole = this.threads
      if (step.kind === BARRIER) {
        const all = step.on.size
        const arrive = all === whole ? `all ${whole} threads arrive` : `only ${all} of ${whole} threads arrive${mine ? ", and it waits for ever" : ""}`
        return `${head}${capital(me)} ${mine ? "waits" : "is not"} at barrier ${step.interval + 1}: ${arrive}.`
      }
      const warp = this.members(step.on)
      if (step.kind > BARRIER)
        return head + (mine
          ? `${capital(me)} takes part in ${count(step.times, "warp operation")}: lanes hand registers to each other, and no memory is touched.`
          : `${capital(me)} has nothing to do while others exchange registers.`)
      const buffer = this.buffers[step.buffer], verb = VERB[step.kind]
      const masked = off ? `masked off: ${buffer.list(off)} ${off.length === 1 ? "is" : "are"} not touched` : ""
      const parts = []
      if (mine) parts.push(`${capital(me)} ${verb} ${buffer.list(mine)}${masked ? `; ${masked}` : ""}.`)
      else if (off) parts.push(`${capital(me)} is ${masked}.`)
      else parts.push(`${capital(me)} takes no part.`)
      const price = whole && warp.length ? cost(step, buffer, warp) : ""
      if (!whole) {
        if (mine && buffer.space === "global") parts.push(`That is ${traffic(buffer, mine)}.`)
      } else if (warp.length) {
        const lanes = warp.map(t => t % WARP).sort((a, b) => a - b)
        const touched = warp.flatMap(t => step.on.get(t))
        const same = new Set(touched).size === 1 && warp.length > 1 ? "all " : ""
        parts.push(`In warp ${this.warp}, ${lanes.length === 1 ? "lane" : "lanes"} ${spans(lanes)} ${same}${lanes.length === 1 ? verb : NOUN[step.kind]} ${buffer.list(touched)}${price ? `: ${price}` : ""}.`)
      } else {
        const others = new Set([...step.on.keys()].map(t => Math.floor(t / WARP))).size
        parts.push(`No lane of warp ${this.warp} does${others ? `; ${count(others, "other warp")} of the block ${others === 1 ? "does" : "do"}` : ""}.`)
      }
      return head + parts.join(" ")
    }

    // ---- pictures ----
    fit() {
      const width = Math.floor(this.pictures.clientWidth)
      if (!width || width === this.width) return
      this.width = width
      this.draw()
    }

    draw() {
      const values = { [this.who]: this.block, step: this.step, thread: this.thread, warp: this.warp }
      if (this.sliders.step) this.sliders.step.input.max = this.steps.length - 1
      for (const [name, { input, output }] of Object.entries(this.sliders)) {
        input.value = values[name]
        const last = name === "step" ? `${this.step + 1} of ${this.steps.length}`
          : name === this.who ? this.blocks[this.block].name.replace(`${this.who} `, "") : values[name]
        output.value = last
        input.setAttribute("aria-valuetext", `${name} ${last}${name === "thread" ? `, lane ${this.thread % WARP}` : ""}${name === "step" ? `, line ${this.now.line}` : ""}`)
      }
      // A button that loses its use while it has the focus would drop the focus, so it is only said to be off.
      this.previous.setAttribute("aria-disabled", this.step === 0)
      this.next.setAttribute("aria-disabled", this.step === this.steps.length - 1)
      const words = this.sentence()
      if (this.say.textContent !== words) this.say.textContent = words
      this.showLine()
      if (!this.width) return
      this.drawTrack()
      if (this.threads) this.drawLanes()
      for (const view of this.views) this.drawBuffer(view, view.number)
    }

    showLine() {
      if (!this.source) return
      for (const line of this.source.querySelectorAll("[data-line]")) {
        const here = +line.dataset.line === this.now.line
        line.classList.toggle("kl-stepper__here", here)
        here ? line.setAttribute("aria-current", "step") : line.removeAttribute("aria-current")
        if (!here) continue
        const top = line.offsetTop, room = this.source.clientHeight
        if (top < this.source.scrollTop + 24 || top > this.source.scrollTop + room - 40)
          this.source.scrollTop = top - room / 2 + 10
      }
    }

    // All steps in a row: a barrier is a line from top to bottom, and what the chosen thread takes part in is large.
    drawTrack() {
      const sheet = new Sheet(), n = this.steps.length, width = this.width, pitch = width / n, c = 14
      const wide = Math.max(10, pitch), here = (this.step + .5) * pitch - wide / 2
      sheet.add("kl-now", box(Math.max(1, Math.min(width - wide - 1, here)), 1, wide, 20))
      this.steps.forEach((step, i) => {
        const x = (i + .5) * pitch
        if (step.kind === BARRIER) sheet.add("kl-bar-line", `M${x} 0v22`)
        else if (pitch > 3) {
          const mine = step.on.has(this.thread)
          const size = (mine ? .36 : .14) * Math.min(1, pitch / 12)
          sheet.add(`kl-m kl-m--${SHAPES[step.kind]}${mine ? " kl-m--me" : " kl-m--far"}`, mark(step.kind, x - c / 2, 4, c, size))
        }
      })
      sheet.draw(this.track, width, 22, "")
    }

    drawLanes() {
      const step = this.now, sheet = new Sheet(), first = this.warp * WARP
      const c = this.laneWidth = Math.min(22, (this.width - 4) / WARP), y = 18
      const every = c < 15 ? 8 : 4
      for (let lane = 0; lane < Math.min(WARP, this.threads - first); lane++) {
        const thread = first + lane, x = 2 + lane * c
        const on = step.on.has(thread), off = step.off.has(thread)
        sheet.add(on ? "kl-cell" : "kl-cell kl-cell--off", box(x + 1, y, c - 2))
        if (on) sheet.add(`kl-m kl-m--${SHAPES[step.kind]}${thread === this.thread ? " kl-m--me" : ""}`, mark(step.kind, x + 1, y, c - 2, .3))
        if (off) sheet.add("kl-m kl-m--masked", cross(x + 1, y, c - 2))
        if (thread === this.thread) {
          sheet.add("kl-me", box(x, y - 1, c))
          sheet.add("kl-me-arrow", `M${x + c / 2 - 4} ${y + c + 7}h8l-4-6z`)
        }
        if (lane % every === 0 || lane === WARP - 1) sheet.text(x + c / 2, 12, lane, "kl-t--soft kl-t--m")
      }
      const left = this.threads - first
      this.laneTitle.replaceChildren(element("strong", { textContent: `warp ${this.warp}` }), ` ${left < WARP ? `${left} lanes; the block ends here` : "32 lanes"}`)
      const doing = step.kind === BARRIER ? "at the barrier" : step.kind > BARRIER ? "exchanging" : VERB[step.kind].replace(/s$/, "ing").replace("writeing", "writing").replace("updateing", "updating")
      const lanes = this.members(step.on).map(t => t % WARP).sort((a, b) => a - b)
      sheet.draw(this.lanes, 4 + WARP * c, y + c + 9, `Lanes of warp ${this.warp}: ${lanes.length ? `${spans(lanes)} ${doing}` : "none takes part"}; lane ${this.thread % WARP} is chosen`)
    }

    // The position to look at: what the chosen thread, else its warp, else anybody touches at this step, or at the last
    // one before, or the first after. Vectors of one length are looked at in the same place.
    focus(buffer) {
      const alike = other => other === buffer || buffer.line && other.line && other.count === buffer.count
      const before = this.steps.slice(0, this.step + 1).reverse(), after = this.steps.slice(this.step + 1)
      for (const who of [map => map.get(this.thread), map => map.get(this.members(map)[0]), map => [...map.values()][0]])
        for (const step of [...before, ...after]) {
          if (step.buffer < 0 || !alike(this.buffers[step.buffer])) continue
          const at = (who(step.on) || who(step.off) || []).map(e => this.buffers[step.buffer].position(e)).find(p => p >= 0)
          if (at !== undefined) return at
        }
      return 0
    }

    // Which rows and columns of a buffer are drawn: all of a small one, else those around the chosen thread.
    frame(buffer) {
      const columns = buffer.line ? Math.max(1, Math.min(this.width < 480 ? 16 : 32, buffer.count)) : buffer.width
      const rows = buffer.line ? Math.ceil(buffer.count / columns) : buffer.height
      const tall = buffer.line ? 12 : 40, wide = 40, part = buffer.line ? 8 : 32
      const at = this.focus(buffer), focus = { row: Math.floor(at / columns), column: at % columns }
      const row = rows > tall ? Math.floor(focus.row / part) * part : 0
      const column = columns > wide ? Math.floor(focus.column / 32) * 32 : 0
      const height = Math.min(rows - row, rows > tall ? part : tall)
      return { columns, rows, row, column, height, width: Math.min(columns - column, columns > wide ? 32 : wide) }
    }

    drawBuffer(view, number) {
      const { buffer } = view, step = this.now, f = this.frame(buffer), sheet = new Sheet()
      const left = 8 + 7 * String(Math.max(buffer.line ? buffer.count : buffer.height, 10)).length, top = 16
      const room = f.height > 12 && this.width > 700 ? (this.width - 28) / 2 : this.width
      const c = Math.max(7, Math.min(buffer.line ? 20 : 16, Math.floor((room - left - 4) / Math.max(1, buffer.line ? f.columns : f.width))))
      const cell = position => {
        const row = Math.floor(position / f.columns) - f.row, column = position % f.columns - f.column
        if (position < 0 || row < 0 || row >= f.height || column < 0 || column >= f.width) return null
        return [left + column * c, top + row * c]
      }
      const put = (name, e, path) => { const at = cell(buffer.position(e)); if (at) sheet.add(name, path(...at)); return at }
      for (let row = 0; row < f.height; row++) {
        for (let column = 0; column < f.width; column++) {
          const position = (row + f.row) * f.columns + column + f.column
          if (position >= buffer.count) continue
          sheet.add("kl-cell", box(left + column * c + .5, top + row * c + .5, c - 1))
        }
        if (f.height <= 12 || (row + f.row) % 8 === 0 || row === f.height - 1)
          sheet.text(left - 5, top + (row + .5) * c + 4, buffer.line ? (row + f.row) * f.columns : row + f.row, "kl-t--soft kl-t--e")
      }
      for (let column = 0; column < f.width; column++)
        if ((column + f.column) % 8 === 0 || column === f.width - 1 && column % 8 > 2) sheet.text(left + (column + .5) * c, 11, buffer.line ? `+${column}` : column + f.column, "kl-t--soft kl-t--m")
      for (const old of this.steps.slice(0, this.step))
        if (old.buffer === number && (old.kind === WRITE || old.kind === ATOMIC))
          for (const elements of old.on.values())
            for (const e of elements) {
              put("kl-cell--written", e, (x, y) => box(x + .5, y + .5, c - 1))
              put("kl-notch", e, (x, y) => notch(x, y, c))
            }
      for (const other of this.threads ? this.steps : [])
        if (other.buffer === number && other !== step)
          for (const e of other.on.get(this.thread) || []) put("kl-cell--mine", e, (x, y) => box(x + 2, y + 2, c - 4))
      let outside = 0, unseen = 0
      if (step.buffer === number) {
        const shape = SHAPES[step.kind]
        for (const [thread, elements] of step.on) {
          const near = !this.threads || Math.floor(thread / WARP) === this.warp, me = this.threads && thread === this.thread
          for (const e of elements) {
            if (me) put("kl-me", e, (x, y) => box(x, y, c))
            const seen = put(`kl-m kl-m--${shape}${me ? " kl-m--me" : near ? "" : " kl-m--far"}`, e, (x, y) => mark(step.kind, x, y, c, near ? .3 : .13))
            if (buffer.position(e) < 0) outside++
            else if (near && !seen) unseen++
          }
        }
        for (const [thread, elements] of step.off)
          for (const e of elements) {
            if (!this.threads || Math.floor(thread / WARP) === this.warp) put("kl-m kl-m--masked", e, (x, y) => cross(x, y, c))
            if (this.threads && thread === this.thread) put("kl-me", e, (x, y) => box(x, y, c))
          }
      }
      view.at = (x, y) => {
        const column = Math.floor((x - left) / c), row = Math.floor((y - top) / c)
        if (column < 0 || row < 0 || column >= f.width || row >= f.height) return -1
        return (row + f.row) * f.columns + column + f.column
      }
      const size = buffer.shape.length > 1 ? buffer.shape.join(" × ") : count(buffer.count, "element")
      const notes = [`${buffer.space}, ${size}`]
      const last = Math.min(buffer.count, (f.row + f.height) * f.columns) - 1
      if (buffer.line && f.height < f.rows) notes.push(f.row * f.columns === last ? `element ${last} is drawn` : `elements ${f.row * f.columns}–${last} are drawn`)
      if (!buffer.line && (f.height < f.rows || f.width < f.columns))
        notes.push(`rows ${f.row}–${f.row + f.height - 1}, columns ${f.column}–${f.column + f.width - 1} are drawn`)
      if (unseen) notes.push(`${unseen} more touched outside this part`)
      view.title.replaceChildren(element("strong", { textContent: buffer.name }), ` ${notes.join("; ")}`)
      if (outside) view.title.append(" ", element("strong", { className: "kl-stepper__outside", textContent: `${count(outside, "access").replace("accesss", "accesses")} out of bounds` }))
      view.box.classList.toggle("kl-stepper__buffer--now", step.buffer === number)
      sheet.draw(view.svg, left + f.width * c + 2, top + f.height * c + 2, `${buffer.name}, ${notes.join("; ")}${step.buffer === number ? `; ${NOUN[step.kind]} now` : ""}`)
    }

    legend() {
      const item = (path, words) =>
        `<span><svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">${path.map(([n, d]) => `<path class="${n}" d="${d}"/>`).join("")}</svg>${words}</span>`
      const frame = ["kl-cell", box(.5, .5, 15)]
      const kinds = new Set(this.blocks.flatMap(block => block.steps.map(step => step.kind)))
      const items = [READ, WRITE, ATOMIC].filter(kind => kinds.has(kind)).map(kind =>
        item([frame, [`kl-m kl-m--${SHAPES[kind]}`, mark(kind, 0, 0, 16, .3)]], NOUN[kind]))
      if (this.threads) items.push(
        item([["kl-me", box(1, 1, 14)]], "chosen thread"),
        item([frame, ["kl-cell--mine", box(2, 2, 12)]], "its element at another step"),
        item([frame, ["kl-m kl-m--read kl-m--far", mark(READ, 0, 0, 16, .13)]], "small: another warp"))
      items.push(item([["kl-cell--written", box(.5, .5, 15)], ["kl-notch", notch(0, 0, 16)]], "written before"))
      if (this.blocks.some(block => block.steps.some(step => step.off.size)))
        items.push(item([frame, ["kl-m kl-m--masked", cross(0, 0, 16)]], "masked off"))
      if (this.threads) items.push(item([["kl-cell kl-cell--off", box(.5, .5, 15)]], "lane takes no part"))
      items.push(`<span class="kl-stepper__keys">keys, when the picture has the focus: ← → step${this.threads ? ", ↑ ↓ thread" : ""}, space plays</span>`)
      return element("p", { className: "kl-stepper__legend", innerHTML: items.join(" ") })
    }
  }

  const FIGURES = "figure.kl-fig--stepper:not(.kl-stepper--live)"
  function make(figure) {
    if (!figure.querySelector(".kl-stepper__data")) return
    try {
      new Stepper(figure)
    } catch (error) {
      document.documentElement.classList.remove("kl-steps")
      throw error
    }
  }
  const start = () => document.querySelectorAll(FIGURES).forEach(make)
  document.documentElement.classList.add("kl-steps") // a table that will be hidden is not shown before
  if (window.klEach) klEach(FIGURES, make) // see early.js
  else if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start)
  else start()
})()
