declare module 'write-good' {
  /** What is weak in a text; each check is switched by its name. */
  export default function writeGood(
    text: string,
    checks?: Readonly<Record<string, boolean>>,
  ): { index: number; offset: number; reason: string }[]
}
