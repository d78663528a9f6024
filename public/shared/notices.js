/** Short messages about what was done. The region is live, so they are read out too. */
const shownMs = 6000

export function toast(text) {
  const element = document.createElement('p')
  element.className = 'toast'
  element.textContent = text
  document.getElementById('toasts').append(element)
  setTimeout(() => element.remove(), shownMs)
}

/** Says a change to those who do not see it. */
export function announce(text) {
  document.getElementById('announcer').textContent = text
}
