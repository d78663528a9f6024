/** The flows and their state, read again every two seconds. */
const refreshMs = 2000
const list = document.getElementById('flows')
const state = document.getElementById('state')

async function refresh() {
  try {
    const response = await fetch('/flows/status', { cache: 'no-store', redirect: 'error' })
    if (!response.ok) throw new Error(`HTTP ${response.status}`)
    show(await response.json())
    state.textContent = ''
  } catch (error) {
    state.textContent = error.message
  }
  setTimeout(() => void refresh(), refreshMs)
}

function show(flows) {
  list.replaceChildren(
    ...Object.entries(flows).map(([name, { paused, runLimit, runCount }]) => {
      const line = document.createElement('li')
      const word = paused ? 'Paused' : runLimit === null ? 'Running' : `${runCount}/${runLimit}`
      line.textContent = `${name}: ${word}`
      return line
    }),
  )
}

void refresh()
