import { createHash } from 'node:crypto'

/** An id that is the same for the same parts. */
export function messageId(...parts: readonly (string | number)[]): string {
  return `msg_${createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 32)}`
}

const longestText = 300

/** One line of at most 300 characters without control, direction or other invisible characters. */
export function oneLine(text: string): string {
  const clean = text.replace(/[\p{C}\p{Z}\s]+/gu, ' ').trim()
  const characters = Array.from(clean)
  if (characters.length <= longestText) return clean
  return `${characters.slice(0, longestText - 1).join('')}…`
}

/** `2026-11-21 14:30:05 UTC`. */
export function clockTime(iso: string): string {
  return `${iso.slice(0, 19).replace('T', ' ')} UTC`
}
