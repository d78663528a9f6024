/**
 * The sentences of reasons by their codes, in the languages of the operators. `{…}` is filled with the reason's data. A part in
 * brackets that holds such a name is left out when its data is not known. `hint` is what to do, of a problem of a definition.
 */
export type ReasonTexts = Readonly<
  Record<string, { en: string; es: string; hint?: { en: string; es: string } }>
>
