// What a word of the glossary means, and how a number was computed, without a mouse: it is shown when the keyboard comes
// to the word, and at the first tap; the second tap follows the link. A mouse shows the title, as everywhere.
(() => {
  "use strict"
  const HINTED = "a.kl-term[title], .kl-value[title]"
  let box, shown, touched = false

  const hinted = event => event.target instanceof Element ? event.target.closest(HINTED) : null

  function show(word, more) {
    if (!box) document.body.append(box = klElement("div", { className: "kl-hint", "aria-hidden": "true" })) // the title is read aloud
    shown = word
    box.replaceChildren(word.title, ...(more ? [klElement("small", {}, more)] : []))
    box.hidden = false
    const place = word.getClientRects()[0], width = box.offsetWidth, edge = 8
    const left = Math.min(place.left, document.documentElement.clientWidth - width - edge)
    const below = place.bottom + edge + box.offsetHeight < innerHeight
    box.style.left = `${Math.max(edge, left) + scrollX}px`
    box.style.top = `${(below ? place.bottom + 4 : place.top - box.offsetHeight - 4) + scrollY}px`
  }

  function hide() {
    if (box) box.hidden = true
    shown = null
  }

  document.addEventListener("pointerdown", event => {
    touched = event.pointerType === "touch"
    if (!hinted(event)) hide()
  })
  document.addEventListener("click", event => {
    const word = hinted(event)
    if (!word || !touched) return
    const again = shown === word, leads = word.matches("a")
    if (again && leads) return
    event.preventDefault()
    again ? hide() : show(word, leads ? "Tap again for its entry in the glossary." : "")
  })
  document.addEventListener("focusin", event => {
    const word = hinted(event)
    if (word && !touched && word.matches(":focus-visible")) show(word)
  })
  document.addEventListener("focusout", event => { if (hinted(event) === shown && !touched) hide() })
  document.addEventListener("keydown", event => {
    touched = false
    if (event.key === "Escape") hide()
  })
  addEventListener("resize", hide)
})()
