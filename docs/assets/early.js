// Stands in the head, so that what scripts add to a page is there before the page is painted and nothing moves.
(() => {
  "use strict"
  document.documentElement.className = "js" // the theme says so only at the end of the page

  // Where a browser keeps nothing, asking for its storage is an error that ends the theme's script: no search, no switch of
  // colours. What stands in for it lasts as long as the page, and says that it forgets.
  for (const name of ["localStorage", "sessionStorage"])
    try {
      window[name].length
    } catch {
      const kept = new Map(), value = {
        forgets: true,
        getItem: key => kept.get(`${key}`) ?? null,
        setItem: (key, words) => { kept.set(`${key}`, `${words}`) },
        removeItem: key => { kept.delete(`${key}`) },
        clear: () => kept.clear(),
      }
      try { Object.defineProperty(window, name, { configurable: true, value }) } catch {} // then nothing can be done
    }

  const asked = []
  const ended = node => {
    for (let at = node; at; at = at.parentNode) if (at.nextSibling) return true
    return document.readyState !== "loading"
  }

  // What finds its places as it grows is hidden until it is complete.
  function grow() {
    const last = [...document.querySelectorAll("article :is(table, .kl-block__bar)")].pop()
    for (const node of document.querySelectorAll("[data-reading]")) if (ended(node)) node.removeAttribute("data-reading")
    if (last && !ended(last)) last.setAttribute("data-reading", "")
  }

  function look() {
    grow()
    for (const { selector, make, complete, made } of asked)
      for (const node of document.querySelectorAll(selector))
        if (!made.has(node) && complete(node)) {
          made.add(node)
          try { make(node) } catch (error) { reportError(error) } // the others are still made
        }
  }

  // Calls `make` once for every element, in their order, as soon as the element has been read to its end, or is
  // `complete` in another sense.
  window.klEach = (selector, make, complete = ended) => {
    asked.push({ selector, make, complete, made: new WeakSet() })
    look()
  }

  // The same for figures that a script draws in the place of what is to be read without scripts. `mark` on the page hides
  // that from the start, so that it is never seen first; where a figure cannot be made it is shown again.
  window.klFigures = (selector, mark, make) => {
    document.documentElement.classList.add(mark)
    klEach(selector, figure => {
      try {
        make(figure)
      } catch (error) {
        document.documentElement.classList.remove(mark)
        throw error
      }
    })
  }

  // An element of that name; what is no property of such an element becomes an attribute.
  window.klElement = (name, properties = {}, ...children) => {
    const made = document.createElement(name)
    for (const [key, value] of Object.entries(properties)) key in made ? made[key] = value : made.setAttribute(key, value)
    made.append(...children)
    return made
  }

  const reading = new MutationObserver(look)
  reading.observe(document, { childList: true, subtree: true })
  document.addEventListener("DOMContentLoaded", () => {
    reading.disconnect()
    look()
    if (typeof document$ !== "undefined") document$.subscribe(look) // the theme can exchange a page without loading it
  })
})()
