// Small things that the theme leaves out. Nothing here is needed to read a page.
document$.subscribe(function () {
  // Say aloud what a copy button did, and show it on the button.
  var dialog = document.querySelector(".md-dialog")
  var pressed = null
  if (dialog && !dialog.hasAttribute("aria-live")) {
    dialog.setAttribute("role", "status")
    dialog.setAttribute("aria-live", "polite")
    new MutationObserver(function () {
      if (!pressed || !dialog.classList.contains("md-dialog--active")) return
      var button = pressed
      pressed = null
      button.classList.add("kl-copy--done")
      setTimeout(function () { button.classList.remove("kl-copy--done") }, 2000)
    }).observe(dialog, { attributes: true, attributeFilter: ["class"] })
    document.addEventListener("click", function (event) {
      pressed = event.target instanceof Element ? event.target.closest(".kl-copy") : null
    }, true)
  }

  // The theme calls the button of every code block a navigation of the page.
  var article = document.querySelector("article")
  var unname = function () {
    article.querySelectorAll("nav.md-code__nav:not([role])").forEach(function (each) { each.setAttribute("role", "none") })
  }
  if (article) {
    new MutationObserver(unname).observe(article, { childList: true, subtree: true })
    unname()
  }

  drawer()
  reachable()
})

// The theme's label of the drawer is for a finger alone: a button is for the keyboard, too.
function drawer() {
  var label = document.querySelector('label.md-header__button[for="__drawer"]'), toggle = document.getElementById("__drawer")
  if (!label || !toggle) return
  var button = document.createElement("button")
  button.type = "button"
  button.className = label.className + " kl-drawer"
  button.setAttribute("aria-label", "Navigation")
  button.append.apply(button, label.childNodes)
  var say = function () { button.setAttribute("aria-expanded", toggle.checked) }
  var press = function () { toggle.click() }
  toggle.addEventListener("change", say)
  button.addEventListener("click", press)
  say()
  label.replaceWith(button)
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Escape" || !toggle.checked || button.offsetParent === null) return
    press()
    button.focus()
  })
}

// Folded answers are printed. A preview that is made anew begins again before it has ended.
var folded = []
window.addEventListener("beforeprint", function () {
  folded = folded.concat(Array.from(document.querySelectorAll("details:not([open], .kl-scratch)")))
  folded.forEach(function (each) { each.open = true })
})
window.addEventListener("afterprint", function () {
  folded.forEach(function (each) { each.open = false })
  folded = []
})

// What is wider than the page is scrolled with the keyboard, too.
function reachable() {
  document.querySelectorAll(".md-typeset pre > code, .kl-wide, div.kl-formula").forEach(function (each) {
    if (each.scrollWidth > each.clientWidth) each.setAttribute("tabindex", "0")
  })
}
window.addEventListener("resize", reachable)
