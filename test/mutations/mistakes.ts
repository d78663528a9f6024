/** Mistakes in one file. */
export type Mistakes = {
  file: string
  /** Tests that must notice: files, and of slow ones the title, or a part of it, of the test. */
  tests: readonly (readonly [file: string, title?: string])[]
  /** What the service would do: the text that stands in the file once and what takes its place, pair by pair. */
  made: Readonly<Record<string, readonly string[]>>
}
