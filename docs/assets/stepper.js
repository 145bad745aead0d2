// Makes a picture and controls of every stepper on the page (see kernels/figures/stepper.py), from stepper-model.js and
// stepper-pictures.js. Nothing is fetched, and without this script the table that it hides says the same.
(() => {
  "use strict"
  const PAUSE = 1100
  const calm = matchMedia("(prefers-reduced-motion: reduce)")
  const element = window.klElement
  const { WARP, BARRIER, VERB, NOUN, Buffer, decode, cost, traffic, count } = window.klSteps
  const { picture, spans, drawTrack, drawLanes, drawBuffer, legend } = window.klPictures
  let made = 0

  const capital = words => words[0].toUpperCase() + words.slice(1)

  class Stepper {
    constructor(figure) {
      const data = JSON.parse(figure.querySelector(".kl-stepper__data").dataset.steps)
      this.figure = figure
      this.threads = data.threads
      this.who = data.who
      this.kernel = data.kernel
      this.plain = data.plain // for readers who have met no sector and no memory but one
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
      this.say = element("p", { className: "kl-stepper__say", "aria-live": "polite", "aria-atomic": "true" })
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
      const quiet = () => {
        if (calm.matches && document.activeElement === this.play) this.next.focus() // what is hidden would drop the focus
        this.play.hidden = calm.matches
        if (calm.matches) this.pause()
      }
      calm.addEventListener("change", quiet)
      quiet()
      const shown = button("Table", "Table of all steps", () =>
        shown.setAttribute("aria-expanded", this.figure.classList.toggle("kl-stepper--table")))
      shown.setAttribute("aria-expanded", false)
      this.sliders = {}
      const rows = []
      if (this.blocks.length > 1) rows.push(this.slider(this.who, this.blocks.length, block => this.go({ block })))
      if (!this.plain) rows.push(this.slider("step", this.steps.length, step => this.go({ step })))
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
      const key = legend(this)
      key.append(...this.linked())
      ;(this.source || this.live).after(this.pictures, key)
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

    // A link to this step of this thread; a page of `lessons trace`, which is a file of its own, has none.
    linked() {
      if (!window.klLink) return []
      const read = () => ({ [this.who]: this.blocks[this.block].number, step: this.step + 1, ...(this.threads && { thread: this.thread }) })
      const take = given => {
        const block = this.blocks.findIndex(each => String(each.number) === given[this.who])
        const whole = (words, less) => /^\d+$/.test(words) ? words - less : undefined
        this.pause()
        this.go({ block: block < 0 ? undefined : block, step: whole(given.step, 1), thread: whole(given.thread, 0) })
      }
      this.link = klLink(this.figure, "walk", read, take) // see links.js
      return [this.link.box]
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
        if (mine && buffer.space === "global" && !this.plain) parts.push(`That is ${traffic(buffer, mine)}.`)
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
      this.link?.renew()
      const words = this.sentence()
      if (this.say.textContent !== words) this.say.textContent = words
      this.showLine()
      if (!this.width) return
      drawTrack(this)
      if (this.threads) drawLanes(this)
      for (const view of this.views) drawBuffer(this, view, view.number)
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
  }

  const make = figure => figure.querySelector(".kl-stepper__data") && new Stepper(figure)
  klFigures("figure.kl-fig--stepper:not(.kl-stepper--live)", "kl-steps", make) // see early.js
})()
