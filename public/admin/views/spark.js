import { h } from '../../shared/dom.js'

const width = 120
const height = 28

/** Values as a line, oldest first, from zero to their highest; the text beside it tells the same in figures. */
export function spark(values) {
  if (values.length < 2) return null
  const top = Math.max(...values, 1)
  const points = values.map((value, index) => {
    const x = (index / (values.length - 1)) * width
    const y = height - 2 - (value / top) * (height - 4)
    return `${x.toFixed(1)} ${y.toFixed(1)}`
  })
  const line = `M${points.join('L')}`
  return h(
    'svg',
    {
      class: 'spark',
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: 'none',
      'aria-hidden': 'true',
      focusable: 'false',
    },
    h('path', { class: 'spark-area', d: `${line}L${width} ${height}L0 ${height}z` }),
    h('path', { class: 'spark-line', d: line }),
  )
}
