import { draw, html } from './lit.js'

/**
 * Charts of the library uPlot. A chart says nothing to a screen reader: whoever shows one tells the same in text beside it.
 */

/** Of each element: the chart in it, what it shows, and what it should show once the library is there. */
const shown = new WeakMap()
const alive = new Set()

const waiting = new Map()
let uPlot
let isMissing = false

/** The first chart that comes near fetches the library: what is seen first, or is all that is seen, must not share the line with it. */
const approach = new IntersectionObserver(
  (entries) => {
    if (!entries.some(({ isIntersecting }) => isIntersecting)) return
    approach.disconnect()
    fetchLibrary()
  },
  { rootMargin: '400px' },
)

function fetchLibrary() {
  const script = document.createElement('script')
  script.src = document.querySelector('meta[name="later:charts"]').content
  script.onload = settle
  script.onerror = settle
  document.head.append(script)
}

function settle() {
  uPlot = globalThis.uPlot
  isMissing = uPlot === undefined
  for (const [element, state] of waiting) begin(element, state)
  waiting.clear()
}

// A canvas does not follow the page's colors by itself.
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const { chart } of alive) chart.redraw(false)
})

/**
 * Describes the element of a chart. `data` are uPlot's columns; `optionsOf(uPlot)` makes its options but for the width, which
 * is the element's, and is asked again only when `data` or `form` changed; `tipOf(index)` is the text beside the pointer.
 */
export function chart({ kind, height, data, form = '', optionsOf, tipOf }) {
  const key = JSON.stringify([form, data])
  const paint = (element) => show(element, { key, height, data, optionsOf, tipOf })
  return html`<div class="chart ${kind}" aria-hidden="true" ${draw(paint)}></div>`
}

/** The color that a variable of the style sheets has where the chart is; uPlot asks at each drawing. */
export function colorOf(variable) {
  return ({ root }) => getComputedStyle(root).getPropertyValue(variable)
}

function show(element, wanted) {
  const state = shown.get(element) ?? {}
  shown.set(element, state)
  state.wanted = wanted
  begin(element, state)
}

function begin(element, state) {
  if (uPlot) paintChart(element, state)
  else if (isMissing) element.hidden = true
  else {
    approach.observe(element)
    waiting.set(element, state)
  }
}

function paintChart(element, state) {
  const { key, height, data, optionsOf, tipOf } = state.wanted
  state.tipOf = tipOf
  if (state.key === key || element.clientWidth === 0) return
  state.key = key
  state.chart?.destroy()
  state.chart = new uPlot(
    {
      width: element.clientWidth,
      height,
      legend: { show: false },
      ...optionsOf(uPlot),
      plugins: tipOf ? [tip(state)] : [],
    },
    data,
    element,
  )
  alive.add(state)
  state.watcher ??= watch(element, state)
}

/** Follows the element's width, and lets the chart go with the element. */
function watch(element, state) {
  const watcher = new ResizeObserver(() => {
    if (!element.isConnected) {
      watcher.disconnect()
      alive.delete(state)
      state.chart.destroy()
    } else if (element.clientWidth > 0) {
      state.chart.setSize({ width: element.clientWidth, height: state.wanted.height })
    }
  })
  watcher.observe(element)
  return watcher
}

/** A text that follows the pointer from column to column. */
function tip(state) {
  const box = document.createElement('div')
  box.className = 'chart-tip'
  box.hidden = true
  return {
    hooks: {
      init: ({ over }) => over.append(box),
      setCursor: ({ cursor, over }) => {
        const text = cursor.idx === null ? undefined : state.tipOf(cursor.idx)
        box.hidden = text === undefined || cursor.left < 0
        if (box.hidden) return
        box.textContent = text
        const room = over.clientWidth - box.offsetWidth
        box.style.left = `${Math.max(0, Math.min(room, cursor.left - box.offsetWidth / 2))}px`
      },
    },
  }
}
