import { inspect } from 'node:util'

const mask = '***'
/** `${env:NAME}`, `${file:/path}`, or what looks like one of them. */
export const reference = /\$\{(?:(env|file):)?([^}]*)\}/g

export type SecretPart = { text: string; isWritten: boolean }

/**
 * A text of a flow file after its references were replaced. It never prints: only `reveal` gives the value. `template`
 * is what the file says, references and all, and may be shown: a literal password in it is an error of the file.
 */
export class Secret {
  readonly template: string
  readonly #value: string
  readonly #parts: readonly SecretPart[]

  /** `value` may be given in parts, of which some stand in the file itself; as one text it counts as referenced. */
  constructor(value: string | readonly SecretPart[], template: string) {
    this.#parts = typeof value === 'string' ? [{ text: value, isWritten: false }] : value
    this.#value = this.#parts.map(({ text }) => text).join('')
    this.template = template
  }

  reveal(): string {
    return this.#value
  }

  /** The value with `change` made to what stands in the file itself: what a reference brings is never a template. */
  withWritten(change: (written: string) => string): string {
    return this.render(change, (text) => text)
  }

  /** The value of which each part is written by the function for its kind. */
  render(ofWritten: (text: string) => string, ofReferenced: (text: string) => string): string {
    return this.#parts
      .map(({ text, isWritten }) => (isWritten ? ofWritten(text) : ofReferenced(text)))
      .join('')
  }

  /** The parts that references bring. */
  referenced(): string[] {
    return this.#parts.filter(({ isWritten }) => !isWritten).map(({ text }) => text)
  }

  /** The template in which a harmless word stands for every reference. */
  templateWith(word: string): string {
    return this.template.replace(reference, word)
  }

  toString(): string {
    return mask
  }

  toJSON(): string {
    return mask
  }

  [inspect.custom](): string {
    return mask
  }
}
