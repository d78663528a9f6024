/**
 * A list that keeps its places while somebody points at it or works in it by key: what would slide under a pointer might be
 * pressed in place of another. Rows that are gone stay where they were, marked, and new ones come last, until he leaves.
 */
export function createSteady(keyOf, redraw) {
  let shown = []
  let isPointed = false
  let isFocused = false

  const letGo = () => {
    if (!isPointed && !isFocused) redraw()
  }

  return {
    /** Listeners of the element around the list. */
    enter() {
      isPointed = true
    },
    leave() {
      isPointed = false
      letGo()
    },
    focus({ target }) {
      isFocused = target.matches(':focus-visible')
    },
    blur() {
      isFocused = false
      letGo()
    },
    /** The rows in the order in which they are shown: `{ row, isGone }`. */
    place(rows) {
      const isHeld = isPointed || isFocused
      shown = isHeld ? kept(shown, rows) : rows.map((row) => ({ row, isGone: false }))
      return shown
    },
  }

  function kept(before, rows) {
    const now = new Map(rows.map((row) => [keyOf(row), row]))
    const old = before.map(({ row }) => {
      const key = keyOf(row)
      const fresh = now.get(key)
      now.delete(key)
      return { row: fresh ?? row, isGone: fresh === undefined }
    })
    return [...old, ...[...now.values()].map((row) => ({ row, isGone: false }))]
  }
}
