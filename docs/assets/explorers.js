// Makes sliders and a picture of every explorer on the page (see kernels/figures/explorers.py). Nothing is fetched, and
// without this script the table that it hides shows some of the same cases. What a kind draws and says is in explorer-access.js,
// explorer-tiles.js, explorer-merge.js and explorer-roofline.js, each of which a page asks for where it has such a figure.
(() => {
  "use strict"
  if (!window.klParts) throw new Error("explorer-parts.js is not there, so no explorer is made: their tables stay")
  const { short } = klParts, element = window.klElement
  let made = 0

  class Explorer {
    constructor(figure) {
      this.figure = figure
      this.data = JSON.parse(figure.querySelector("[data-explore]").dataset.explore)
      this.kind = klKinds[this.data.kind]
      if (!this.kind) throw new Error(`explorer-${this.data.kind}.js is not there, so this explorer is not made: its table stays`)
      this.state = this.kind.start(this.data)
      this.say = element("p", { className: "kl-stepper__say", "aria-live": "polite", "aria-atomic": "true" })
      this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg")
      this.svg.setAttribute("role", "img")
      this.svg.setAttribute("class", "kl-svg")
      this.rows = this.kind.controls(this.data).map(each => this.control(each))
      this.more = element("p", { className: "kl-explore__more" })
      this.why = element("span", { role: "status" })
      this.against = element("span", {})
      this.more.append(this.why, this.against)
      this.cases = klCases[this.data.kind](this.data).map(each => ({ ...each, button: this.button(each.name, () => this.set(each.set)) })) // see explorer-cases.js
      this.link = klLink(figure, this.data.kind, () => this.state, given => this.take(given)) // see links.js
      const table = element("button", { type: "button", className: "kl-button", textContent: "Table" })
      table.setAttribute("aria-label", "Table of some cases")
      table.setAttribute("aria-expanded", "false")
      table.addEventListener("click", () => table.setAttribute("aria-expanded", figure.classList.toggle("kl-explore--table")))
      const keep = this.button("Compare with this", () => { this.kept = this.last; this.draw() })
      this.keep = keep
      const last = element("div", { className: "kl-explore__last" }, ...this.walk(), keep, this.link.box, table)
      const controls = element("div", { className: "kl-explore__controls" }, this.tries(), ...this.rows.map(row => row.box), last)
      controls.setAttribute("role", "group")
      controls.setAttribute("aria-label", this.data.caption || "What to change")
      this.stage = element("div", { className: "kl-explore__stage" })
      this.stage.append(this.svg)
      this.stage.dataset.kind = this.data.kind
      this.svg.addEventListener("click", event => {
        const box = this.svg.getBoundingClientRect(), picked = this.pick?.(event.clientX - box.left, event.clientY - box.top)
        if (picked) this.set(picked)
      })
      figure.prepend(element("div", { className: "kl-explore__live" }, controls, this.say, this.more, this.stage))
      figure.classList.add("kl-explore--live")
      new ResizeObserver(() => {
        if (this.stage.clientWidth === this.width) return
        this.room = 0
        this.draw()
      }).observe(this.stage)
      this.draw()
    }

    button(words, press) {
      const made = element("button", { type: "button", className: "kl-button", textContent: words })
      made.addEventListener("click", press)
      return made
    }

    // The cases of explorer-cases.js, in groups where they have one.
    tries() {
      const box = element("div", { className: "kl-explore__cases" })
      for (const group of new Set(this.cases.map(each => each.group))) {
        const words = element("span", { className: "kl-explore__group", textContent: `${group || "Try"}:` })
        const row = element("div", { role: "group" }, words, ...this.cases.filter(each => each.group === group).map(each => each.button))
        row.setAttribute("aria-label", `Cases to try${group ? `, ${group.toLowerCase()} memory` : ""}`)
        box.append(row)
      }
      return box
    }

    // Buttons for a control that is walked along, for a thumb.
    walk() {
      const along = this.rows.find(row => row.walk)
      if (!along) return []
      const go = by => () => {
        const all = this.values(along.values), at = all.indexOf(this.state[along.name]) + by
        if (at in all) this.set({ [along.name]: all[at] })
      }
      this.steps = [this.button("◀ Previous", go(-1)), this.button("Next ▶", go(1))]
      this.steps.forEach((button, i) => button.setAttribute("aria-label", `${["Previous", "Next"][i]} ${along.label.toLowerCase()}`))
      this.along = along
      return this.steps
    }

    set(some) {
      Object.assign(this.state, some)
      this.draw()
    }

    // What an address says, where the figure has it.
    take(given) {
      for (const { name, values } of this.rows) {
        const found = this.values(values).find(value => String(value) === given[name])
        if (found !== undefined) this.state[name] = found
      }
      if (this.stage) this.draw()
    }

    // The reader's case beside the kept one: a factor for each fact that both have.
    compared() {
      const part = ratio => Math.abs(1 / ratio - Math.round(1 / ratio)) < .005 ? `1/${Math.round(1 / ratio)}` : `${short(100 * ratio)}%`
      const times = ratio => Math.abs(ratio - 1) < .005 ? "the same" : ratio > 1 ? `${short(ratio)} times the` : `${part(ratio)} of the`
      const both = Object.keys(this.last.facts || {}).filter(name => name in this.kept.facts)
      if (!both.length || both.every(name => this.last.facts[name] === this.kept.facts[name])) return ""
      return ` Against ${this.kept.label}: ${both.map(name => `${times(this.last.facts[name] / this.kept.facts[name])} ${name}`).join(", ")}.`
    }

    // A slider, or, for a choice among few names, a list of them.
    control({ name, label, values, unit = String, choice = false, walk = false }) {
      const id = `kl-explore-${++made}`, output = element("output", {})
      const input = choice ? element("select", { id }) : element("input", { type: "range", id, min: 0, step: 1 })
      if (choice) input.append(...this.values(values).map((value, i) => element("option", { value: i, textContent: unit(value, this.state) })))
      else output.setAttribute("aria-hidden", "true")
      input.addEventListener(choice ? "change" : "input", () => {
        this.state[name] = this.values(values)[+input.value]
        this.draw()
      })
      const box = element("div", { className: "kl-stepper__slider" }, element("label", { htmlFor: id, textContent: label }), input, ...(choice ? [] : [output]))
      return { name, label, values, unit, input, output, box, choice, walk }
    }

    values(given) { return typeof given === "function" ? given(this.state) : given }

    draw() {
      for (const { name, values, unit, input, output, choice } of this.rows) {
        const all = this.values(values), last = all.length - 1
        if (!all.includes(this.state[name])) this.state[name] = all[last] // a change of another one left no room for it
        if (!choice) input.max = last
        input.value = all.indexOf(this.state[name])
        if (choice) continue
        output.value = unit(this.state[name], this.state)
        input.setAttribute("aria-valuetext", output.value)
      }
      this.width = this.stage.clientWidth
      if (!this.width) return
      const drawn = this.kind.draw(this.state, this.data, this.width, this.kept), { top, say } = drawn
      this.last = drawn
      this.kept ||= drawn
      this.pick = top && ((x, y) => y < top.height && top.pick(x))
      const height = drawn.height + (top ? top.height : 0)
      const body = top ? [...top.body, `<g transform="translate(0 ${top.height})">`, ...drawn.body, "</g>"] : drawn.body
      this.tell(drawn)
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${height}`)
      this.svg.setAttribute("width", this.width)
      this.svg.setAttribute("height", height)
      this.svg.setAttribute("aria-label", say)
      this.svg.innerHTML = body.join("")
      if (this.say.textContent !== say) this.say.textContent = say
    }

    // Beside the sentence: which case this is and why it is one, how it compares, and an address for it.
    tell(drawn) {
      let why = ""
      for (const { button, set, why: words } of this.cases) {
        const here = Object.entries(set).every(([name, value]) => this.state[name] === value)
        button.setAttribute("aria-pressed", here)
        if (here) why = words
      }
      if (this.why.textContent !== why) this.why.textContent = why
      this.keep.hidden = !drawn.facts
      this.keep.setAttribute("aria-disabled", this.kept === drawn || drawn.label === this.kept.label)
      this.against.textContent = this.compared()
      if (this.steps) {
        const all = this.values(this.along.values), at = all.indexOf(this.state[this.along.name])
        this.steps[0].setAttribute("aria-disabled", at === 0)
        this.steps[1].setAttribute("aria-disabled", at === all.length - 1)
      }
      this.link.renew()
      this.stage.style.minHeight = `${this.room = Math.max(this.room || 0, drawn.height + (drawn.top ? drawn.top.height : 0))}px` // what stands below stays where it is
    }
  }

  window.klExplorers = { KINDS: klKinds, short } // for tests
  klFigures("figure.kl-fig--explore:not(.kl-explore--live)", "kl-explores", figure => new Explorer(figure)) // see early.js
})()
