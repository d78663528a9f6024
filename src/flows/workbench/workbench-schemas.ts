import { z } from 'zod'
import { fieldMessage } from '../../errors/field-reasons.ts'
import { FlowReason, FlowTimestamp } from '../api/api-model.ts'
import { FlowProblem } from '../api/control-schemas.ts'
import { Changes } from '../api/item-schemas.ts'
import { templateNames, templateSources } from '../definition/flow-template.ts'
import { connectionTypes } from '../definition/named-connections.ts'
import { maxFlowFileBytes } from '../definition/yaml-file.ts'

export const FileParams = z.object({
  file: z.string().max(255).describe('Name of a flow file, such as articulos.flow.yaml'),
})

export const VersionParams = FileParams.extend({
  version: z.string().max(64).describe('As the file lists it, such as 20261127T010203123Z'),
})

export const TemplateParams = z.object({
  template: z.enum(templateNames).describe('As `npm run flows:new` names it'),
})

export const TemplateQuery = z.object({
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, fieldMessage({ code: 'FILE_NAME_FORM' }))
    .default('articulos')
    .describe('Of the new flow'),
  from: z
    .enum(templateSources)
    .optional()
    .describe('Where the articles of a shop come from; csv-drop without it'),
})

const Text = z
  .string()
  .refine(
    (text) => Buffer.byteLength(text) <= maxFlowFileBytes,
    fieldMessage({ code: 'TEXT_TOO_LARGE', data: { most: 128 } }),
  )
  .describe('The definition as YAML, at most 128 KiB')

/** The flow of the tutorial, docs/tutorials/first-flow.md, under another name. */
const exampleText = `version: 1
name: precios
pollInterval: 10m
source:
  type: file
  connection: archivos
  path: articulos.csv
  format: csv
  csv: { delimiter: ";", decimalComma: [precio] }
item: { key: codigo }
destinations:
  - name: copia
    type: file
    connection: archivos
    path: salida/precios.ndjson
    format: ndjson
    fields: { sku: codigo, precio: { from: precio, type: decimal } }
`

const DryRunBody = z
  .object({
    text: Text,
    file: z
      .string()
      .max(255)
      .optional()
      .describe(
        'The file that the text would replace. Parts that it leaves as they are may have addresses of their own',
      ),
  })
  .meta({ example: { text: exampleText } })

/** A dry run of a text; a check takes the same text. */
export const DryRunTextBody = DryRunBody.extend({
  count: z
    .boolean()
    .default(false)
    .describe('Reads on behind the first records, to count them all in `records_read`'),
}).meta({ example: { text: exampleText } })

export const CheckBody = DryRunBody.extend({
  file: z
    .string()
    .max(255)
    .optional()
    .describe('Checks it beside all other files, as a save under this name would'),
}).meta({ example: { text: exampleText, file: 'precios.flow.yaml' } })

const hash = z.string().regex(/^[0-9a-f]{64}$/, fieldMessage({ code: 'HASH_WRONG' }))

export const SaveBody = z
  .object({
    text: Text,
    base: hash
      .nullable()
      .describe('The `hash` of the file that the text was made from; null for a new file'),
  })
  .meta({ example: { text: exampleText, base: null } })

const ReadOnlyCode = z
  .enum(['off', 'anonymous', 'open_to_all', 'folder', 'link'])
  .nullable()
  .describe(
    '`off`: FLOWS_WORKBENCH is false; `anonymous` and `open_to_all`: the caller has shown neither a session nor a token; `folder`: it cannot be written; `link`: the file is a link',
  )

export const ConnectionParams = z.object({
  name: z.string().max(64).describe('Name of a connection'),
})

export const ConnectionsResponse = z
  .object({
    connections: z.array(
      z.object({
        name: z.string().describe('What a definition writes after `connection:`'),
        type: z.enum(connectionTypes),
        place: z
          .string()
          .describe('Where it leads, without credentials: host and database, address, or folder'),
        asking: z
          .array(z.string())
          .describe(
            'Flows that wait for an answer, because it leads their destinations to another place',
          ),
      }),
    ),
  })
  .meta({
    id: 'FlowConnections',
    example: {
      connections: [{ name: 'archivos', type: 'folder', place: '/srv/erp', asking: [] }],
    },
  })

export const ConnectionApprovedResponse = z
  .object({ name: z.string(), flows: z.array(z.string()).describe('The flows that go on') })
  .meta({ id: 'FlowConnectionApproved', example: { name: 'archivos', flows: ['articulos'] } })

export const ConnectionTestResponse = z
  .object({
    name: z.string(),
    ok: z.boolean(),
    message: z.string().describe('What answered, or why nothing did'),
  })
  .meta({
    id: 'FlowConnectionTest',
    example: { name: 'archivos', ok: true, message: 'The folder can be read' },
  })

export const FlowFilesResponse = z
  .object({
    folder: z.string().describe('FLOWS_DIR'),
    read_only: z.string().nullable().describe('Why nothing can be saved; null when files can be'),
    read_only_code: ReadOnlyCode,
    files: z.array(
      z.object({
        file: z.string(),
        flow: z.string().nullable().describe('The flow that runs by it; null when none does'),
        problems: z.number(),
      }),
    ),
    templates: z.array(
      z.object({
        name: z.enum(templateNames),
        takes_source: z.boolean().describe('Whether `from` chooses where its articles come from'),
      }),
    ),
    sources: z.array(z.enum(templateSources)).describe('What `from` may be'),
  })
  .meta({ id: 'FlowFiles' })

export const FlowFileResponse = z
  .object({
    file: z.string(),
    text: z.string(),
    hash: z.string().describe('Send it as `base` with a save'),
    changed_at: FlowTimestamp,
    read_only: z.string().nullable().describe('Why it cannot be saved; null when it can be'),
    read_only_code: ReadOnlyCode,
    versions: z
      .array(z.object({ version: z.string(), replaced_at: FlowTimestamp, bytes: z.number() }))
      .describe('What saves have replaced, newest first; the last 50 are kept'),
  })
  .meta({ id: 'FlowFile' })

export const FlowVersionResponse = z
  .object({ file: z.string(), version: z.string(), text: z.string(), hash: z.string() })
  .meta({ id: 'FlowFileVersion' })

export const CheckedResponse = z
  .object({
    name: z.string().nullable().describe('Of the flow; null while there are problems'),
    problems: z.array(FlowProblem).describe('Lines and columns count from 1'),
    sends_at_once: z
      .boolean()
      .describe(
        'A save sends every item of the source: no poll of the flow has succeeded yet, and it is not paused',
      ),
  })
  .meta({ id: 'CheckedDefinition' })

export const TemplateResponse = CheckedResponse.omit({ sends_at_once: true })
  .extend({ text: z.string() })
  .meta({
    id: 'FlowFromTemplate',
  })

export const SavedResponse = z
  .object({
    file: z.string(),
    name: z.string().describe('Of the flow'),
    hash: z.string().describe('Of the file as it is now'),
    problems: z.array(FlowProblem).describe('What keeps the flow from running by it'),
  })
  .meta({ id: 'SavedFlowFile' })

export const RequestPreviewSchema = z.object({
  purpose: z
    .enum(['batch', 'find', 'create', 'update', 'row', 'line', 'payments'])
    .describe('find asks for the item first; batch takes others along'),
  method: z.string().nullable(),
  target: z.string().describe('The address; of a table its name, of a file its path'),
  headers: z.record(z.string(), z.string()),
  body: z.unknown().describe('As it is written for HTTP; else the fields'),
})

export const DryRunDeliverySchema = z.object({
  name: z.string(),
  type: z.string(),
  body: z.unknown().describe('What the mapping makes of the item; null when nothing'),
  requests: z.array(RequestPreviewSchema).describe('References instead of secrets'),
  skipped: z.string().nullable().describe('Why the destination is not to have the item'),
  refused: z.string().nullable().describe('Why the item could not be delivered'),
})

export const DryRunResponse = z
  .object({
    name: z.string(),
    rows_read: z.number(),
    records_read: z.number().describe('All of the source, unless `cut_off` says otherwise'),
    cut_off: z
      .enum(['items', 'time'])
      .nullable()
      .describe('What ended the reading; null at the end of the source'),
    warnings: z.array(z.string()),
    records: z
      .array(
        z.object({
          record: z.unknown().describe('As the source gave it'),
          pk: z.string().nullable(),
          problem: z.string().nullable().describe('Why the record is no item'),
          skipped: z.string().nullable().describe('Why it is left out'),
          destinations: z.array(DryRunDeliverySchema),
        }),
      )
      .describe('The first 10'),
  })
  .meta({ id: 'DryRun' })

export const FlowSchemaResponse = z
  .record(z.string(), z.unknown())
  .meta({ id: 'FlowJsonSchema', description: 'JSON Schema, draft 7' })

export const ItemRequestsResponse = z
  .object({
    name: z.string(),
    pk: z.string(),
    record: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe('As the source showed it last; null when none is kept'),
    destinations: z.array(
      DryRunDeliverySchema.extend({
        delivered_at: FlowTimestamp.nullable(),
        record_changes: Changes.describe(
          'The record beside the one that was delivered last; null when that is not kept',
        ),
        body_changes: Changes.describe('The same of the mapped bodies, by the definition of now'),
        answer: z
          .object({
            at: FlowTimestamp,
            outcome: z.enum(['delivered', 'retry', 'failed', 'skipped']),
            status: z.number().nullable().describe('HTTP status, where there was one'),
            reason: z.string().nullable(),
            why: FlowReason,
          })
          .nullable()
          .describe('To the last attempt'),
      }),
    ),
  })
  .meta({ id: 'FlowItemRequests' })
