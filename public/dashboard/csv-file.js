import { language } from '../shared/i18n.js'

const isSpanish = () => language() === 'es'

/** An amount of the API with the decimal mark that the reader's spreadsheet takes. */
export function csvAmount(point) {
  return isSpanish() ? point.replace('.', ',') : point
}

/** Cells as a line, with semicolons in Spanish, where commas are decimal marks. */
export function csvLine(cells) {
  return cells.map(cell).join(isSpanish() ? ';' : ',')
}

/** Quoted always; a text that a spreadsheet would take for a formula is kept a text. */
function cell(value) {
  const text = String(value ?? '')
  const isFormula = /^[=+\-@\t\r]/.test(text) && !/^-?[\d.,]+$/.test(text)
  return `"${(isFormula ? `'${text}` : text).replaceAll('"', '""')}"`
}

/** Saves lines as a file of the reader. */
export function saveCsv(lines, fileName) {
  // The mark tells Excel that it is UTF-8.
  const address = URL.createObjectURL(
    new Blob(['\ufeff', lines.join('\r\n')], { type: 'text/csv' }),
  )
  const link = document.createElement('a')
  link.href = address
  link.download = fileName
  link.click()
  URL.revokeObjectURL(address)
}
