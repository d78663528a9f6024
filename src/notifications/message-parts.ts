import { createHash } from 'node:crypto'
import { textIn } from '../texts/texts.ts'
import type { Locale, MessageText, Notification } from './channel.ts'

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

/** A client, or one of its boxes. */
export function boxName(
  { client, caja_id: box }: { client: string; caja_id: string | null },
  locale: Locale,
): string {
  return textIn(locale, 'message.box', { client, box: box ?? undefined })
}

/** An amount with the decimal sign of the language. */
export function localPoint(point: string, locale: Locale): string {
  return locale === 'es' ? point.replace('.', ',') : point
}

/** A text without examples, and without anything to do. */
export function plainText(title: string, facts: string[]): MessageText {
  return { title, facts, examples: [], advice: [], command: null }
}

/** A test message for a receiver; `words` are its title and its fact. */
export function testNotification(
  { id, at }: { id: string; at: string },
  event: Notification['event'],
  words: (locale: Locale) => [string, string],
): Notification {
  const text = (locale: Locale) => {
    const [title, fact] = words(locale)
    return plainText(title, [fact])
  }
  return { id, at, text, event }
}

/** Readers skip longer mails; further payments get separate messages. */
const namedAtMost = 20

/**
 * Divides rows into messages in their stored form, oldest first; `subject` is the field of the rows. The id derives from content and
 * time, so it is the same for every attempt to send.
 */
export function toMessages<
  Subject extends string,
  Kind extends string,
  Row extends { id: string },
  View extends object,
>(
  subject: Subject,
  kind: Kind,
  rows: readonly Row[],
  { now, timeOf, view }: { now: Date; timeOf: (row: Row) => Date; view: (row: Row) => View },
) {
  const at = now.toISOString()
  const left = rows.toSorted((a, b) => timeOf(a).getTime() - timeOf(b).getTime())
  const messages: ({ id: string; at: string; kind: Kind } & Record<Subject, View[]>)[] = []
  while (left.length > 0) {
    const named = left.splice(0, namedAtMost)
    const id = messageId(subject, kind, at, ...named.map((row) => row.id))
    const views = { [subject]: named.map(view) } as Record<Subject, View[]>
    messages.push({ id, at, kind, ...views })
  }
  return messages
}

/** The first places of a message. */
export function firstPlaces(places: readonly string[]): string {
  const [first, second, ...others] = new Set(places)
  return `${[first, second].filter((one) => one !== undefined).join('; ')}${others.length > 0 ? '; …' : ''}`
}
