import { expect, it } from "vitest";
import { fieldsOf, requestOf } from "./providerFields";

it("keeps the secret of a provider that is changed without one", () => {
  const fields = { ...fieldsOf(null), name: "company", discovery: "https://id.example.com", clientId: "fairpool" };
  expect(requestOf(fields, false)).toEqual({
    type: "oidc",
    oidcData: { clientId: "fairpool", discoverDocumentUrl: "https://id.example.com" },
  });
  expect(requestOf({ ...fields, clientSecret: "s" }, true)).toMatchObject({
    name: "company",
    oidcData: { clientSecret: "s" },
  });
});

it("sends the metadata that was chosen, and no other", () => {
  const fields = { ...fieldsOf(null), type: "saml" as const, metadataUrl: "https://id.example.com/m" };
  expect(requestOf(fields, false)).toEqual({
    type: "saml",
    samlData: { metadataXmlType: "url", metadataXmlUrl: "https://id.example.com/m" },
  });
  const file = { ...fields, metadataType: "file" as const, metadataFile: "<x/>", fileName: "m.xml" };
  expect(requestOf(file, false)).toEqual({
    type: "saml",
    samlData: { metadataXmlType: "file", metadataXmlFile: "<x/>", fileName: "m.xml" },
  });
});

it("sends names of claims only where there are some", () => {
  const fields = { ...fieldsOf(null), mappers: { ...fieldsOf(null).mappers, groups: "realm_access.roles" } };
  expect(requestOf(fields, false).mappers).toEqual({ groups: "realm_access.roles" });
});
