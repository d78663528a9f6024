import { access } from './en/access.ts'
import { alerts } from './en/alert-failures.ts'
import { cashier } from './en/cashier.ts'
import { closing } from './en/closing.ts'
import { connect } from './en/connect.ts'
import { databases } from './en/databases.ts'
import { definitionValues } from './en/definition.ts'
import { definitionAddresses } from './en/definition-addresses.ts'
import { definitionDestinations } from './en/definition-destinations.ts'
import { definitionFiles } from './en/definition-files.ts'
import { definitionSources } from './en/definition-sources.ts'
import { deliveries } from './en/deliveries.ts'
import { fields } from './en/fields.ts'
import { files } from './en/files.ts'
import { fleet } from './en/fleet.ts'
import { items } from './en/items.ts'
import { messages } from './en/messages.ts'
import { pauses } from './en/pauses.ts'
import { polls } from './en/polls.ts'
import { refusals } from './en/refusals.ts'
import { sources } from './en/sources.ts'

/** The texts in English. */
export const en = {
  ...pauses,
  ...polls,
  ...sources,
  ...files,
  ...items,
  ...deliveries,
  ...databases,
  ...access,
  ...alerts,
  ...definitionValues,
  ...definitionAddresses,
  ...definitionSources,
  ...definitionDestinations,
  ...definitionFiles,
  ...refusals,
  ...fields,
  ...cashier,
  ...closing,
  ...connect,
  ...fleet,
  ...messages,
} as const
