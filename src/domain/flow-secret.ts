import { inspect } from 'node:util'

const mask = '***'
/** `${env:NAME}`, `${file:/path}`, or similar text. */
export const reference = /\$\{(?:(env|file):)?([^}]*)\}/g

export type SecretPart = { text: string; isWritten: boolean }

/**
 * A text of a flow file after its references were replaced. It never prints: only `reveal` returns the value.
 * `template` is the text of the file with its references, and may be shown: a literal password in it is an error of the
 * file.
 */
export class Secret {
  readonly template: string
  readonly #value: string
  readonly #parts: readonly SecretPart[]

  /** `value` may be given in parts, some of them written in the file itself; a single text counts as referenced. */
  constructor(value: string | readonly SecretPart[], template: string) {
    this.#parts = typeof value === 'string' ? [{ text: value, isWritten: false }] : value
    this.#value = this.#parts.map(({ text }) => text).join('')
    this.template = template
  }

  reveal(): string {
    return this.#value
  }

  /** The value with `change` applied to what is written in the file: a referenced value is never a template. */
  withWritten(change: (written: string) => string): string {
    return this.render(change, (text) => text)
  }

  /** The value, with each part written by the function for its kind. */
  render(ofWritten: (text: string) => string, ofReferenced: (text: string) => string): string {
    return this.#parts
      .map(({ text, isWritten }) => (isWritten ? ofWritten(text) : ofReferenced(text)))
      .join('')
  }

  referenced(): string[] {
    return this.#parts.filter(({ isWritten }) => !isWritten).map(({ text }) => text)
  }

  /** The template with each reference replaced by a harmless word. */
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
